#include "cli/library.h"

namespace anymask::cli {

void check(anymask_status status) {
  if (status != ANYMASK_OK) throw UsageError(anymask_last_error());
}

std::string take(char* text) {
  std::string result(text);
  anymask_free(text);
  return result;
}

}  // namespace anymask::cli
