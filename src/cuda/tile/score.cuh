// From products to scores: s = scale * (q . k), softcap, + bias, + alibi, in natural units, on mma accumulators.
//
// Bias is read from global memory where the accumulators need it: rows l / 4 + 8 h, columns 8 g + 2 (l % 4) + {0, 1}.
// Rows and columns beyond the sequence read its last ones: their scores are masked or never written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"

namespace anymask {

// tanh to about 1e-7 absolute (tanh.approx has 5e-4, a fiftieth of a nat at a cap of 30).
__device__ __forceinline__ float tanh_exact(float x) {
  return 1.f - __fdividef(2.f, ptx::exp2_approx(fminf(x * (2 * log2_e_f), 126.f)) + 1.f);
}

// 16-bit floats, low and high half of a word.
__device__ __forceinline__ float low_half(uint32_t x, bool f16) {
  return f16 ? __half2float(__ushort_as_half(static_cast<uint16_t>(x))) : __uint_as_float(x << 16);
}
__device__ __forceinline__ float high_half(uint32_t x, bool f16) {
  return f16 ? __half2float(__ushort_as_half(static_cast<uint16_t>(x >> 16))) : __uint_as_float(x & 0xffff0000u);
}

// s += bias, of one row. `row` is the address of its element (row, first column of the step), in bytes; `pairs`: two
// neighbours may be read as one aligned word, and the whole step lies inside the sequence. Else columns stop at `last`.
template <int n_tiles>
__device__ __forceinline__ void add_bias(float (&s)[n_tiles][4], int h, const char* row, int64_t stride_kv, DType dtype,
                                         bool pairs, int last, int lane) {
  const int column = 2 * (lane % 4);
  const bool f16 = dtype == DType::f16;
  if (dtype == DType::f32) {
    if (pairs) {
#pragma unroll
      for (int g = 0; g < n_tiles; ++g) {
        const float2 x = __ldg(reinterpret_cast<const float2*>(row + (8 * g + column) * 4));
        s[g][2 * h] += x.x, s[g][2 * h + 1] += x.y;
      }
      return;
    }
#pragma unroll
    for (int g = 0; g < n_tiles; ++g) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        s[g][2 * h + j] += __ldg(reinterpret_cast<const float*>(row + min(8 * g + column + j, last) * stride_kv * 4));
      }
    }
    return;
  }
  if (pairs) {
#pragma unroll
    for (int g = 0; g < n_tiles; ++g) {
      const uint32_t x = __ldg(reinterpret_cast<const uint32_t*>(row + (8 * g + column) * 2));
      s[g][2 * h] += low_half(x, f16), s[g][2 * h + 1] += high_half(x, f16);
    }
    return;
  }
#pragma unroll
  for (int g = 0; g < n_tiles; ++g) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint16_t x = __ldg(reinterpret_cast<const uint16_t*>(row + min(8 * g + column + j, last) * stride_kv * 2));
      s[g][2 * h + j] += low_half(x, f16);
    }
  }
}

// The modifiers of one head of one sequence.
struct ScoreModifiers {
  const char* bias;  // element (0, 0) of the plane; null: none
  float slope;       // 0: no alibi

  __device__ __forceinline__ void start(const AttentionParams& p, int sequence, int head) {
    const CudaBias& b = p.bias;
    bias = static_cast<const char*>(b.data);
    if (bias) bias += (sequence * b.stride_b + head / b.group * b.stride_h) * (b.dtype == DType::f32 ? 4 : 2);
    slope = p.alibi.data ? per_head(p.alibi, sequence, head) : 0.f;
  }

  // S of 16-row tiles from `row` (of the lane: its h = 0 row of the first) and of the step from `key`.
  template <int m_tiles, int n_tiles>
  __device__ __forceinline__ void apply(float (&s)[m_tiles][n_tiles][4], const AttentionParams& p, bool bias_pairs,
                                        int row, int key, int s_q, int s_kv, int lane) const {
    const float scale = p.softmax_scale;
    if (p.softcap != 0) {
      const float inner = scale / p.softcap;
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int g = 0; g < n_tiles; ++g) {
#pragma unroll
          for (int i = 0; i < 4; ++i) s[m][g][i] = p.softcap * tanh_exact(s[m][g][i] * inner);
        }
      }
    } else {
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int g = 0; g < n_tiles; ++g) {
#pragma unroll
          for (int i = 0; i < 4; ++i) s[m][g][i] *= scale;
        }
      }
    }
    if (bias) {
      const CudaBias& b = p.bias;
      const int size = b.dtype == DType::f32 ? 4 : 2;
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const char* at = bias + (min(row + 16 * m + 8 * h, s_q - 1) * b.stride_q + key * b.stride_kv) * size;
          add_bias(s[m], h, at, b.stride_kv, b.dtype, bias_pairs && key + 8 * n_tiles <= s_kv, s_kv - 1 - key, lane);
        }
      }
    }
    if (slope != 0) {
      // Distances are whole numbers below 2^24: exact.
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const auto distance = static_cast<float>(row + 16 * m + 8 * h + s_kv - s_q - key - 2 * (lane % 4));
#pragma unroll
          for (int g = 0; g < n_tiles; ++g) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              s[m][g][2 * h + j] = fmaf(-slope, fabsf(distance - static_cast<float>(8 * g + j)), s[m][g][2 * h + j]);
            }
          }
        }
      }
    }
  }
};

}  // namespace anymask
