// Scores with softcap, bias and ALiBi, in place in the accumulators of S = Q K^T.
//
// Scores stay raw products where they can, and the softmax's one multiplication brings scale and log2(e): softcap gives
// raw scores again, ALiBi adds slope / scale. With a bias, or a scale that is not positive, they are natural: scale
// comes with the bias, in one fused operation.
//
// Softcap. While all of a warp's |s| scale are below 0.625 cap, tanh(u) = u + u^3 q(u^2) with q of degree 3: within
// 1.3e-7 of the score, and no special functions. Else tanh is 2 / (1 + exp(-2 u)) - 1, with one reciprocal for four
// elements: its error is absolute, about 4e-7 of the cap. tanh.approx errs by 5e-4 of the cap: 2.5% of a probability at
// a cap of 50.
//
// ALiBi. On tiles wholly before or after a warp's rows |p - kv| is linear in the key: one operation an element adds
// what depends on the column inside the tile, and a number a row goes into the exponent (Softmax::offset).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/sm90_shared.cuh"
#include "cuda/tile/sm90_softmax.cuh"

namespace anymask::sm90 {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

// Whether scores become natural before the softmax: a quotient by a scale next to nothing would overflow.
__device__ __forceinline__ bool natural_scores(const AttentionParams& params) {
  return params.bias.data != nullptr || !(params.softmax_scale > 1e-12f);
}

// tanh(u) cap / scale of raw scores s = u cap / scale.
template <int kN>
__device__ __forceinline__ void cap_scores(float (&s)[kN / 2], float scale, float cap) {
  const float unit = __fdividef(scale, cap);
  float top[2] = {fabsf(s[0]), fabsf(s[1])};
#pragma unroll
  for (int i = 2; i < kN / 2; ++i) top[i % 2] = fmaxf(top[i % 2], fabsf(s[i]));
  // Beyond 10^4 the powers of `unit` overflow, and what is 0 would come out as NaN.
  if (__all_sync(0xffffffffu, fmaxf(top[0], top[1]) * fabsf(unit) <= .625f && fabsf(unit) < 1e4f)) {
    const float square = unit * unit;
    const float c1 = -.333323412f * square, c2 = .133081751f * square * square,
                c3 = -.0519479044f * square * square * square, c4 = .0151953733f * square * square * square * square;
#pragma unroll
    for (float& x : s) {
      const float z = x * x;
      x = fmaf(x, z * fmaf(z, fmaf(z, fmaf(z, c4, c3), c2), c1), x);
    }
    return;
  }
  const float exponent = -2 * log2_e_f * unit, inverse = __fdividef(cap, scale);
#pragma unroll
  for (int i = 0; i < kN / 2; i += 4) {
    float d[4];  // 1 + exp(-2 u), at most 2^30: the product of four is finite
#pragma unroll
    for (int j = 0; j < 4; ++j) d[j] = 1 + ptx::exp2_approx(fminf(s[i + j] * exponent, 30.f));
    const float low = d[0] * d[1], high = d[2] * d[3], all = ptx::reciprocal_approx(low * high);
    const float of_low = all * high, of_high = all * low;
    const float r[4] = {of_low * d[1], of_low * d[0], of_high * d[3], of_high * d[2]};
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // what is not a number stays so, and stays alone
      s[i + j] = s[i + j] == s[i + j] ? fmaf(r[j], 2 * inverse, -inverse) : s[i + j];
    }
  }
}

// S = S scale + bias; `at`: of this thread's two rows, at its first key. `last`: columns from there to the sequence's
// last key; what is beyond is masked, and not read. `quarter` = lane % 4.
template <class B, int kN>
__device__ __forceinline__ void add_bias(float (&s)[kN / 2], const B* (&at)[2], int64_t stride_kv, int32_t last,
                                         float scale, int quarter) {
  struct alignas(2 * sizeof(B)) Pair {
    B x, y;
  };
  const auto aligned = [](const B* x) { return reinterpret_cast<uintptr_t>(x) % sizeof(Pair) == 0; };
  const bool whole = last + 2 * quarter + 1 >= kN;  // the last tile, too, where it ends with the sequence
  if (__all_sync(0xffffffffu, stride_kv == 1 && whole && aligned(at[0]) && aligned(at[1]))) {
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {                               // row i % 2, columns 8 (i / 2) + {0, 1}
      if (i % (32 / sizeof(B)) == 0) asm volatile("" ::: "memory");  // 64 bytes at a time: registers
      const Pair pair = *reinterpret_cast<const Pair*>(at[i & 1] + i / 2 * 8);
      s[2 * i] = fmaf(s[2 * i], scale, to_float(pair.x));
      s[2 * i + 1] = fmaf(s[2 * i + 1], scale, to_float(pair.y));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kN / 4; ++i) {
    asm volatile("" : "+l"(at[i & 1])::"memory");  // addresses step by step: computed beforehand they would spill
    const int column = i / 2 * 8;
    if (column <= last) s[2 * i] = fmaf(s[2 * i], scale, to_float(at[i & 1][0]));
    if (column + 1 <= last) s[2 * i + 1] = fmaf(s[2 * i + 1], scale, to_float(at[i & 1][stride_kv]));
    at[i & 1] += 8 * stride_kv;
  }
}

// S = S scale + bias from global memory. `row`: of the tile, and row + 8, for this thread; `quarter` = lane % 4.
template <class S>
__device__ __forceinline__ void read_bias(float (&s)[S::kN / 2], const AttentionParams& params, const ItemInfo& item,
                                          const TileInfo& tile, int row, int quarter) {
  const CudaBias& bias = params.bias;
  const int64_t keys = (tile.key_begin + 2 * quarter) * bias.stride_kv + item.sequence * bias.stride_b;
  int64_t at[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row + 8 * h;
    const int32_t token = min(item.token_begin + params.plan.fold.token(r), item.s_q - 1);
    const int32_t head = item.q_head + params.plan.fold.head(r);
    at[h] = keys + head / bias.group * bias.stride_h + token * bias.stride_q;
  }
  // The tile that comes next in a run: of each row two lines of 128 bytes, one a lane of the quad.
  const int32_t ahead = (descends<S>(params) ? -S::kN : S::kN) + quarter / 2 * 64;
  if (bias.stride_kv == 1 && bias.dtype != DType::f32 && tile.key_begin + ahead >= 0 && ahead < tile.limit) {
    const int64_t line = (quarter % 2 == 0 ? at[0] : at[1]) - 2 * quarter + ahead;
    ptx::prefetch_l2(static_cast<const uint16_t*>(bias.data) + line);
  }
  const int32_t last = tile.limit - 1 - 2 * quarter;
  const auto add = [&](auto element) {
    using B = decltype(element);
    const B* const data = static_cast<const B*>(bias.data);
    const B* rows[2] = {data + at[0], data + at[1]};
    add_bias<B, S::kN>(s, rows, bias.stride_kv, last, params.softmax_scale, quarter);
  };
  if (bias.dtype == DType::bf16) {
    add(__nv_bfloat16{});
  } else if (bias.dtype == DType::f16) {
    add(__half{});
  } else {
    add(float{});
  }
}

// ALiBi of a thread's two rows, for one item.
struct AlibiRows {
  float slope[2];  // in units of the scores
  float place[2];  // position of the row, less this thread's first column of a tile

  __device__ __forceinline__ void start(const AttentionParams& params, const ItemInfo& item, int row, int quarter) {
    if (params.alibi.data == nullptr) return;
    const float unit = natural_scores(params) ? 1.f : params.softmax_scale;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row + 8 * h;
      const int32_t token = min(item.token_begin + params.plan.fold.token(r), item.s_q - 1);
      slope[h] = __fdividef(per_head(params.alibi, item.sequence, item.q_head + params.plan.fold.head(r)), unit);
      place[h] = static_cast<float>(token + item.s_kv - item.s_q - 2 * quarter);
    }
  }

  // S -= slope |p - kv|, less `offset` of each row, in log2 units.
  template <int kN>
  __device__ __forceinline__ void add(float (&s)[kN / 2], int32_t key_begin, float scale_log2,
                                      float (&offset)[2]) const {
    const float begin = static_cast<float>(key_begin);
    const float distance[2] = {place[0] - begin, place[1] - begin};
    const bool before = __all_sync(0xffffffffu, fminf(distance[0], distance[1]) >= kN - 7);
    const bool after = __all_sync(0xffffffffu, fmaxf(distance[0], distance[1]) <= 0);
    if (before || after) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float rise = before ? slope[h] : -slope[h];
        offset[h] = -rise * scale_log2 * distance[h];
#pragma unroll
        for (int i = 0; i < kN / 4; ++i) {
          float& x = s[i / 2 * 4 + 2 * h + (i & 1)];
          x = fmaf(static_cast<float>(i / 2 * 8 + (i & 1)), rise, x);
        }
      }
      return;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      offset[h] = 0;
#pragma unroll
      for (int i = 0; i < kN / 4; ++i) {
        float& x = s[i / 2 * 4 + 2 * h + (i & 1)];
        x = fmaf(-slope[h], fabsf(distance[h] - static_cast<float>(i / 2 * 8 + (i & 1))), x);
      }
    }
  }
};

}  // namespace anymask::sm90
