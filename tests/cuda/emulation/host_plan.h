// A plan of the host's builder in the form that CUDA kernels read: items, runs, bits in fragment order.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "cuda/attention_params.h"
#include "cuda/launch/kernel.h"
#include "mask/mask.h"

namespace anymask::emulation {

struct HostPlan {
  int32_t tile_m = 0, num_items = 0;
  Fold fold;
  int32_t slots = 0;  // pieces of split rows
  std::vector<CudaItem> items;
  std::vector<Run> runs;
  std::vector<uint32_t> bit_units, tile_kinds;
  CudaPlan view() const {
    return {tile_m, fold, &num_items, items.data(), runs.data(), bit_units.data(), tile_kinds.data()};
  }
};

// A row of tiles in up to `pieces` pieces.
HostPlan make_host_plan(const Mask& mask, const AttentionProblem& problem, const PlanShape& shape, int32_t pieces = 1);

}  // namespace anymask::emulation
