// What a mask keeps of each row, for the selection among it: a thread a row where it is a band, else a warp a block of
// 64 rows x 128 keys.
#pragma once

#include "cuda/plan/evaluate.cuh"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/tile/mask_bits.cuh"
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
  const int64_t units = (plane.s_kv + 127) / 128, lane = thread % 32;
  for (int64_t block = thread / 32; block < (plane.s_q + 63) / 64 * units; block += threads / 32) {
    const int64_t q = block / units * 64 + lane, unit = block % units;
    const LaneWords kept = plane.row_words<2>(q, unit * 128);
    for (int half = 0; half < 2; ++half) {
      uint32_t words[4] = {};
      for (int k = 0; k < 4; ++k) {
        const auto columns = static_cast<uint32_t>(kept.word[2 * half + k / 2] >> (32 * (k % 2)));
        for (int c = 0; c < 4; ++c) words[c] |= quarter(columns, c) << (8 * k);
      }
      if (q + 32 * half < plane.s_q)
        reinterpret_cast<uint4*>(mask.words)[(q + 32 * half) * units + unit] =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

}  // namespace anymask::plan_build
