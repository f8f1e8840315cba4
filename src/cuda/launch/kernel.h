// What a launcher gives the backend: a configuration chosen on the host, printable, and a launch that only enqueues.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cuda/attention_params.h"

namespace anymask {

// Facts of one device, read once.
struct CudaDevice {
  int32_t index = 0;
  int32_t major = 0, minor = 0;  // compute capability
  int32_t num_sms = 0;
  int32_t shared_bytes = 0;  // a block may opt in to
  std::string name;
};

// One pass over a plan: which orientation and tile it reads, and how work is cut.
struct PlanShape {
  int32_t tile_m = 128;      // a multiple of 64; tile_n is 128
  bool transposed = false;   // rows are keys
  bool per_kv_head = false;  // items count kv heads; all heads of a group must share a plane, else items count q heads
  int32_t fold = 1;          // query heads in the rows of a tile: a power of two of the group, which shares a plane
  int32_t parallelism =
      0;  // blocks that run at once: rows of tiles much longer than the mean are split for them; 0: never
  friend bool operator==(const PlanShape&, const PlanShape&) = default;
};

}  // namespace anymask
