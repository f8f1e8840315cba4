// One row of the pieces of a row of tiles, merged by their lse:
//
//   lse = ln(sum_i exp(lse_i) + exp(sink)), out = sum_i exp(lse_i - lse) out_i
//
// Pieces: out_i fp32 [slot][tile_m][d_v], each normalised by its own sum, and lse_i [slot][tile_m], natural, without
// the sink, -inf where the piece keeps nothing of the row. Slots of a row of tiles are consecutive and added up in that
// order, so that the result does not depend on which piece came first.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/row_at.cuh"

namespace anymask {

struct PieceRow {
  int64_t slot;  // the first one
  int32_t num_splits;
  int32_t row;  // of the tile
  int32_t sequence, head;
  int64_t batch, token;  // along the strides of out
};

// By a warp. Other blocks may just have written the pieces: they are read past the first-level cache.
template <class T>
__device__ __forceinline__ void merge_row(const AttentionParams& p, const PieceRow& at, int lane) {
  const int32_t tile_m = p.plan.tile_m, n = at.num_splits;
  const float* const lse_of = p.partial_lse + at.slot * tile_m + at.row;
  const auto lse = [&](int32_t i) { return i < n ? __ldcg(lse_of + int64_t{i} * tile_m) : -INFINITY; };
  const float sink = p.sinks.data ? per_head(p.sinks, at.sequence, at.head) : -INFINITY;
  const float mine = lse(lane);
  float top = fmaxf(mine, sink);
  for (int32_t i = 32 + lane; i < n; i += 32) top = fmaxf(top, lse(i));
#pragma unroll
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
  const float base = top == -INFINITY ? 0.f : top;
  const auto weight = [base](float x) { return ptx::exp2_approx((x - base) * log2_e_f); };
  float total = weight(mine);
  for (int32_t i = 32 + lane; i < n; i += 32) total += weight(lse(i));
#pragma unroll
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
  total += weight(sink);
  const float inverse = total == 0 ? 0.f : 1.f / total;

  uint16_t* const to = row_at(p.out, at.batch, at.token, at.head);
  const float* const from = p.partial_out + (at.slot * tile_m + at.row) * p.d_v;
  const int64_t stride = int64_t{tile_m} * p.d_v;
  for (int32_t columns = 0; columns < p.d_v; columns += 128) {
    const int32_t d = columns + 4 * lane;
    const bool inside = d < p.d_v;
    float sum[4] = {0, 0, 0, 0};
    for (int32_t first = 0; first < n; first += 32) {
      const float weights = weight(first == 0 ? mine : lse(first + lane)) * inverse;
      const int32_t count = min(32, n - first);
#pragma unroll 8
      for (int32_t i = 0; i < count; ++i) {
        const float w = __shfl_sync(0xffffffffu, weights, i);
        const float4 x = inside ? __ldcg(reinterpret_cast<const float4*>(from + (first + i) * stride + d)) : float4{};
        sum[0] += w * x.x, sum[1] += w * x.y, sum[2] += w * x.z, sum[3] += w * x.w;
      }
    }
    if (!inside) continue;
    const uint32_t low = ptx::pack<T>(sum[0], sum[1]), high = ptx::pack<T>(sum[2], sum[3]);
    to[d] = static_cast<uint16_t>(low), to[d + 1] = static_cast<uint16_t>(low >> 16);
    to[d + 2] = static_cast<uint16_t>(high), to[d + 3] = static_cast<uint16_t>(high >> 16);
  }
  if (lane == 0 && p.lse.data) {
    p.lse.data[at.batch * p.lse.stride_b + at.head * p.lse.stride_h + at.token * p.lse.stride_q] =
        total == 0 ? -INFINITY : base + logf(total);
  }
}

}  // namespace anymask
