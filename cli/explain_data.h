// What anymask_explain says, as far as `run` and `explain` print it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/call.h"

namespace anymask::cli {

struct Explanation {
  std::string backend, kernel;
  double kept_share = 0;
  bool planned = false;
  int64_t full_tiles = 0, partial_tiles = 0, empty_tiles = 0, plan_bytes = 0;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, std::string>> refused;  // backend, reason
};

// Also checks the whole call: throws UsageError with the library's message.
Explanation explain(const Call& call, bool backward);

}  // namespace anymask::cli
