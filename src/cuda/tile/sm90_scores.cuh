// Scores with softcap, bias and ALiBi, in place in the accumulators of S = Q K^T: natural units, scale included.
//
// tanh is 1 - 2 / (1 + exp(2 x)) with ex2.approx: its error is absolute, about 2e-7 of the cap, far below what fp16
// probabilities resolve. tanh.approx errs by 5e-4 of the cap: 2.5% of a probability at a cap of 50.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/sm90_shared.cuh"
#include "cuda/tile/sm90_softmax.cuh"

namespace anymask::sm90 {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

// S += bias; `at`: of this thread's two rows, at its first key. `last`: columns from there to the sequence's last key;
// what is beyond is masked, and not read.
template <class B, int kN>
__device__ __forceinline__ void add_bias(float (&s)[kN / 2], const B* (&at)[2], int64_t stride_kv, int32_t last) {
  struct alignas(2 * sizeof(B)) Pair {
    B x, y;
  };
  const auto aligned = [](const B* x) { return reinterpret_cast<uintptr_t>(x) % sizeof(Pair) == 0; };
  if (__all_sync(0xffffffffu, stride_kv == 1 && last >= kN && aligned(at[0]) && aligned(at[1]))) {
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {                // row i % 2, columns 8 (i / 2) + {0, 1}
      if (i % 8 == 0) asm volatile("" ::: "memory");  // at most 8 loads at a time: registers
      const Pair pair = *reinterpret_cast<const Pair*>(at[i & 1] + i / 2 * 8);
      s[2 * i] += to_float(pair.x);
      s[2 * i + 1] += to_float(pair.y);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kN / 4; ++i) {
    asm volatile("" : "+l"(at[i & 1])::"memory");  // addresses step by step: computed beforehand they would spill
    const int column = i / 2 * 8;
    if (column <= last) s[2 * i] += to_float(at[i & 1][0]);
    if (column + 1 <= last) s[2 * i + 1] += to_float(at[i & 1][stride_kv]);
    at[i & 1] += 8 * stride_kv;
  }
}

// `row`: of the tile, and row + 8, for this thread; `quarter` = lane % 4.
template <int kN>
__device__ __forceinline__ void modify_scores(float (&s)[kN / 2], const AttentionParams& params, const ItemInfo& item,
                                              const TileInfo& tile, int row, int quarter) {
  const float scale = params.softmax_scale, cap = params.softcap;
  if (cap > 0) {
    const float exponent = 2 * log2_e_f * scale / cap;
#pragma unroll
    for (float& x : s) x = cap - __fdividef(2 * cap, 1 + ptx::exp2_approx(x * exponent));
  } else {
#pragma unroll
    for (float& x : s) x *= scale;
  }
  int32_t token[2], head[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row + 8 * h;
    token[h] = min(item.token_begin + params.plan.fold.token(r), item.s_q - 1);
    head[h] = item.q_head + params.plan.fold.head(r);
  }
  const int32_t key = tile.key_begin + 2 * quarter;
  if (params.alibi.data != nullptr) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float slope = per_head(params.alibi, item.sequence, head[h]);
      const float distance = static_cast<float>(token[h] + item.s_kv - item.s_q - key);
#pragma unroll
      for (int i = 0; i < kN / 4; ++i) {
        s[i / 2 * 4 + 2 * h + (i & 1)] -= slope * fabsf(distance - static_cast<float>(i / 2 * 8 + (i & 1)));
      }
    }
  }
  if (params.bias.data != nullptr) {
    const CudaBias& bias = params.bias;
    const int64_t keys = key * bias.stride_kv + item.sequence * bias.stride_b;
    const int64_t at[2] = {keys + head[0] / bias.group * bias.stride_h + token[0] * bias.stride_q,
                           keys + head[1] / bias.group * bias.stride_h + token[1] * bias.stride_q};
    const int32_t last = tile.limit - 1 - 2 * quarter;
    const auto add = [&](auto element) {
      using B = decltype(element);
      const B* const data = static_cast<const B*>(bias.data);
      const B* rows[2] = {data + at[0], data + at[1]};
      add_bias<B, kN>(s, rows, bias.stride_kv, last);
    };
    if (bias.dtype == DType::bf16) {
      add(__nv_bfloat16{});
    } else if (bias.dtype == DType::f16) {
      add(__half{});
    } else {
      add(float{});
    }
  }
}

}  // namespace anymask::sm90
