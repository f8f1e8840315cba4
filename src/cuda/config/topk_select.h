// How rows are shared out to the warps of the selection kernel, in one place and printable.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "core/dtype.h"
#include "cuda/launch/kernel.h"

namespace anymask {

struct TopkSelectConfig {
  DType dtype = DType::f16;
  int32_t chunks = 16;       // pieces of 16 bytes that a lane holds: 16, or 4 where rows are short
  int32_t warps = 1;         // that share a row, of a block's 16
  int32_t cluster = 1;       // blocks that share a row; above 1 all their warps do
  int32_t segments = 1;      // stretches that each warp takes, reading the row again for every count, where above 1
  int32_t rows_at_once = 1;  // neighbours that a team takes one after the other
  int32_t blocks = 1;
  std::vector<Fact> facts() const;
};

// `keys`: of the longest row.
TopkSelectConfig choose_topk_select(DType dtype, int64_t rows, int64_t keys, const CudaDevice& device);

}  // namespace anymask
