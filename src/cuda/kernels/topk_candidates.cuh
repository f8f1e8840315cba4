// What a mask keeps of each row, for the selection among it: a thread a row where it is a band, else a warp a block of
// 64 rows x 128 keys.
#pragma once

#include "cuda/plan/evaluate.cuh"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/topk_params.h"

namespace anymask::plan_build {

inline constexpr int candidate_threads = 256;

// Blocks (stretch, mask).
__global__ void __launch_bounds__(candidate_threads)
    topk_candidates(const __grid_constant__ PlanBuild build, const TopkCandidates* masks) {
  ptx::wait_for_previous();
  const TopkCandidates& mask = masks[blockIdx.y];
  const Plane plane(build, mask.plane);
  const auto thread = static_cast<int64_t>(blockIdx.x) * candidate_threads + threadIdx.x;
  const auto threads = static_cast<int64_t>(gridDim.x) * candidate_threads;
  if (mask.limits != nullptr) {
    for (int64_t q = thread; q < plane.s_q; q += threads) {
      const Interval kept = plane.interval(q);
      mask.limits[q] = {static_cast<int32_t>(kept.begin), static_cast<int32_t>(kept.end)};
    }
    return;
  }
  const int64_t words = (plane.s_kv + 31) / 32, across = (words + 3) / 4, lane = thread % 32;
  for (int64_t block = thread / 32; block < (plane.s_q + 63) / 64 * across; block += threads / 32) {
    const int64_t q = block / across * 64 + lane, word = block % across * 4;
    const LaneWords kept = plane.row_words<2>(q, word * 32);
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < 4; ++k) {
        if (q + 32 * half < plane.s_q && word + k < words)
          mask.words[(q + 32 * half) * words + word + k] =
              static_cast<uint32_t>(kept.word[2 * half + k / 2] >> (32 * (k % 2)));
      }
    }
  }
}

}  // namespace anymask::plan_build
