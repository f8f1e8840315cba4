// combine: merges the pieces of split rows by their lse.
//
//   lse = ln(sum_i exp(lse_i) + exp(sink)), out = sum_i exp(lse_i - lse) out_i
//
// Pieces: out_i fp32 [slot][tile_m][d_v], each normalised by its own sum, and lse_i [slot][tile_m], natural, without
// the sink, -inf where the piece keeps nothing of the row. Slots of a row are consecutive: item.partial + piece, added
// up in that order, so that the result does not depend on which piece came first.
//
// A warp takes a row; blocks walk over the plan's items and stop at the first piece of each split one. Rows beyond s_q
// were never written and are not read.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/score.cuh"
#include "cuda/tile/softmax.cuh"

namespace anymask {

inline constexpr int combine_warps = 8;

template <class T>
__global__ void __launch_bounds__(32 * combine_warps) combine(const __grid_constant__ AttentionParams p) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int num_items = *p.plan.num_items, tile_m = p.plan.tile_m;
  const Fold fold = p.plan.fold;
  // A block a band of rows of each split item.
  const int bands = static_cast<int>(gridDim.y), band = static_cast<int>(blockIdx.y);
  for (int index = static_cast<int>(blockIdx.x); index < num_items; index += static_cast<int>(gridDim.x)) {
    const CudaItem item = p.plan.items[index];
    if (item.num_splits <= 1 || item.split != 0) continue;
    const CudaSequence sequence = sequence_of(p, item.sequence);
    const int first = item.m_block * fold.tokens(tile_m), rows = min(tile_m, (sequence.s_q - first) * fold.heads());
    for (int r = band * combine_warps + warp; r < rows; r += bands * combine_warps) {
      const int head = fold.first_head(item.head) + fold.head(r);
      const float sink = p.sinks.data ? per_head(p.sinks, item.sequence, head) : -INFINITY;
      const float* lse_of = p.partial_lse + int64_t{item.partial} * tile_m + r;
      float top = sink;
      for (int i = 0; i < item.num_splits; ++i) top = fmaxf(top, lse_of[int64_t{i} * tile_m]);
      const float base = top == -INFINITY ? 0.f : top;
      float total = ptx::exp2_approx((sink - base) * log2_e_f);
      for (int i = 0; i < item.num_splits; ++i) {
        total += ptx::exp2_approx((lse_of[int64_t{i} * tile_m] - base) * log2_e_f);
      }
      const float inverse = total == 0 ? 0.f : 1.f / total;

      const int64_t token = sequence.q_begin + first + fold.token(r);
      auto* to = static_cast<uint16_t*>(p.out.data) + sequence.batch * p.out.stride_b + token * p.out.stride_s +
                 head * p.out.stride_h;
      for (int d = 4 * lane; d < p.d_v; d += 128) {
        float sum[4] = {0, 0, 0, 0};
        for (int i = 0; i < item.num_splits; ++i) {
          const float weight = ptx::exp2_approx((lse_of[int64_t{i} * tile_m] - base) * log2_e_f) * inverse;
          const int64_t slot = int64_t{item.partial} + i;
          const float4 x = *reinterpret_cast<const float4*>(p.partial_out + (slot * tile_m + r) * p.d_v + d);
          sum[0] += weight * x.x, sum[1] += weight * x.y, sum[2] += weight * x.z, sum[3] += weight * x.w;
        }
        const uint32_t low = ptx::pack<T>(sum[0], sum[1]), high = ptx::pack<T>(sum[2], sum[3]);
        to[d] = static_cast<uint16_t>(low), to[d + 1] = static_cast<uint16_t>(low >> 16);
        to[d + 2] = static_cast<uint16_t>(high), to[d + 3] = static_cast<uint16_t>(high >> 16);
      }
      if (lane == 0 && p.lse.data) {
        p.lse.data[sequence.batch * p.lse.stride_b + head * p.lse.stride_h + token * p.lse.stride_q] =
            total == 0 ? -INFINITY : base + logf(total);
      }
    }
  }
}

}  // namespace anymask
