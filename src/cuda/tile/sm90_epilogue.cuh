// The end of an item: out = O / l and lse = m + ln l, from a warpgroup's registers to global memory.
//
// A quad holds a row's columns in pairs; three exchanges give each lane eight neighbours, so that a warp writes 64
// whole bytes of 8 rows at a time. No shared memory is touched: the next item's Q is loaded meanwhile.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/sm90_scores.cuh"
#include "cuda/tile/sm90_shared.cuh"
#include "cuda/tile/sm90_softmax.cuh"

namespace anymask::sm90 {

// A 4 x 4 transpose in a quad: lane c gives x[j] as its part of piece j and gets the four parts of piece c.
__device__ __forceinline__ uint4 gather_quad(const uint32_t (&x)[4], int c) {
  const bool odd = c & 1, upper = c & 2;
  const uint32_t from0 = __shfl_xor_sync(0xffffffffu, odd ? x[0] : x[1], 1);
  const uint32_t from1 = __shfl_xor_sync(0xffffffffu, odd ? x[2] : x[3], 1);
  // Parts of lanes c & 2 and c | 1 of pieces c & 1 and (c & 1) + 2.
  const uint32_t low0 = odd ? from0 : x[0], low1 = odd ? x[1] : from0;
  const uint32_t high0 = odd ? from1 : x[2], high1 = odd ? x[3] : from1;
  const uint32_t other0 = __shfl_xor_sync(0xffffffffu, upper ? low0 : high0, 2);
  const uint32_t other1 = __shfl_xor_sync(0xffffffffu, upper ? low1 : high1, 2);
  return upper ? uint4{other0, other1, high0, high1} : uint4{low0, low1, other0, other1};
}

// lse to global memory, 1 / l returned. `row` of the tile (and row + 8) is this thread's. A sink joins l, except in
// pieces of a row: their merge adds it.
template <class S>
__device__ __forceinline__ void write_lse(const Softmax<typename S::T, S::kN, S::kModified>& rows, float (&inverse)[2],
                                          const AttentionParams& params, const ItemInfo& item, int row, int quarter) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float l = rows.sum[h];
    l += __shfl_xor_sync(0xffffffffu, l, 1);
    l += __shfl_xor_sync(0xffffffffu, l, 2);
    inverse[h] = l == 0 ? 0.f : 1 / l;
    float lse = l == 0 ? -INFINITY : logf(l) - rows.shift[h] / log2_e_f;
    const int r = row + 8 * h;
    const int32_t token = item.token_begin + params.plan.fold.token(r), head = item.q_head + params.plan.fold.head(r);
    const bool writes = token < item.s_q && quarter == 0;
    if (item.partial >= 0) {
      if (writes) params.partial_lse[int64_t{item.partial} * S::kTileM + r] = lse;
      continue;
    }
    if (params.sinks.data != nullptr) {
      const float sink = per_head(params.sinks, item.sequence, head);
      const float top = fmaxf(lse, sink);
      if (top > -INFINITY) {
        const float with_sink = top + logf(expf(lse - top) + expf(sink - top));
        inverse[h] *= expf(lse - with_sink);
        lse = with_sink;
      }
    }
    if (writes && params.lse.data != nullptr) {
      params.lse.data[item.batch * params.lse.stride_b + head * params.lse.stride_h +
                      (item.q_begin + token) * params.lse.stride_q] = lse;
    }
  }
}

// out = O / l, or the piece's rows of it in fp32.
template <class S>
__device__ __forceinline__ void write_out(const float (&o)[S::kDv / 2], const float (&inverse)[2],
                                          const AttentionParams& params, const ItemInfo& item, int row, int quarter) {
  using T = typename S::T;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row + 8 * h;
    const int32_t token = item.token_begin + params.plan.fold.token(r), head = item.q_head + params.plan.fold.head(r);
    const bool valid = token < item.s_q;
    if (item.partial >= 0) {
      float* const out = params.partial_out + (int64_t{item.partial} * S::kTileM + r) * params.d_v + 2 * quarter;
#pragma unroll
      for (int g = 0; g < S::kDv / 8; ++g) {
        if (!valid || g * 8 >= params.d_v) continue;
        *reinterpret_cast<float2*>(out + g * 8) = {o[4 * g + 2 * h] * inverse[h], o[4 * g + 2 * h + 1] * inverse[h]};
      }
      continue;
    }
    T* const out = static_cast<T*>(params.out.data) + item.batch * params.out.stride_b +
                   (item.q_begin + token) * params.out.stride_s + head * params.out.stride_h + 8 * quarter;
#pragma unroll
    for (int a = 0; a < S::kDv / 32; ++a) {
      uint32_t x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = 4 * (4 * a + j) + 2 * h;
        x[j] = ptx::pack<T>(o[i] * inverse[h], o[i + 1] * inverse[h]);
      }
      const uint4 whole = gather_quad(x, quarter);
      if (valid && 32 * a + 8 * quarter < params.d_v) *reinterpret_cast<uint4*>(out + 32 * a) = whole;
    }
  }
}

}  // namespace anymask::sm90
