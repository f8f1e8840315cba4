// Fuzzes the serialised form of masks: any bytes give a whole mask, or an error.
#include "fuzz/whole_mask.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  anymask_mask_t mask = nullptr;
  if (anymask_mask_from_bytes(data, size, &mask) != ANYMASK_OK) return 0;
  char* printed = nullptr;
  anymask::fuzz::require(anymask_mask_text(mask, &printed) == ANYMASK_OK);
  anymask_free(printed);
  anymask::fuzz::check_whole(mask);
  anymask_mask_free(mask);
  return 0;
}
