// combine: merges the pieces of split rows, behind a kernel that leaves them.
//
// A warp takes a row (tile/merge_row.cuh); blocks walk over the items and stop at the first piece of each split one.
// Rows beyond s_q were never written and are not read.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/merge_row.cuh"

namespace anymask {

inline constexpr int combine_warps = 8;

template <class T>
__global__ void __launch_bounds__(32 * combine_warps) combine(const __grid_constant__ AttentionParams p) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int num_items = count_items(p), tile_m = p.plan.tile_m;
  const Fold fold = p.plan.fold;
  // A block a band of rows of each split item.
  const int bands = static_cast<int>(gridDim.y), band = static_cast<int>(blockIdx.y);
  for (int index = static_cast<int>(blockIdx.x); index < num_items; index += static_cast<int>(gridDim.x)) {
    const CudaItem item = item_of(p, index);
    if (item.num_splits <= 1 || item.split != 0) continue;
    const CudaSequence sequence = sequence_of(p, item.sequence);
    const int first = item.m_block * fold.tokens(tile_m), rows = min(tile_m, (sequence.s_q - first) * fold.heads());
    for (int r = band * combine_warps + warp; r < rows; r += bands * combine_warps) {
      merge_row<T>(p,
                   {item.partial, item.num_splits, r, item.sequence, fold.first_head(item.head) + fold.head(r),
                    sequence.batch, sequence.q_begin + first + fold.token(r)},
                   lane);
    }
  }
}

}  // namespace anymask
