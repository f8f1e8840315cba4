// Scores beyond scale * (q . k): softcap, bias and ALiBi, and the softcap's slope, which the gradients are multiplied
// by. One pair at a time; kernels without any of them never come here.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"

namespace anymask {

__device__ __forceinline__ void store_element(void* data, DType type, int64_t index, float x) {
  switch (type) {
    case DType::f32:
      static_cast<float*>(data)[index] = x;
      return;
    case DType::f16:
      static_cast<__half*>(data)[index] = __float2half_rn(x);
      return;
    default:
      static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(x);
  }
}

// What the scores of one head of one sequence need beside the call's parameters. Kept in shared memory: kernels that
// come here have no registers to spare.
struct ScoreTerms {
  int64_t bias;   // element (0, 0) of the head's bias
  float slope;    // ALiBi
  int32_t shift;  // s_kv - s_q

  __device__ __forceinline__ void set(const AttentionParams& p, int sequence, int head, int s_q, int s_kv) {
    bias = p.bias.data == nullptr ? 0 : sequence * p.bias.stride_b + head / p.bias.group * p.bias.stride_h;
    slope = p.alibi.data == nullptr ? 0 : per_head(p.alibi, sequence, head);
    shift = s_kv - s_q;
  }

  // The score in natural units from q . k, of a pair inside the plane; `cap_slope` is what dS is multiplied by on its
  // way to dQ and dK. tanh by the exponential: its error is absolute, 1e-7 of the cap, and it saturates without
  // overflow.
  __device__ __forceinline__ float score(const AttentionParams& p, float dot, int query, int key,
                                         float& cap_slope) const {
    float x = dot * p.softmax_scale;
    cap_slope = 1;
    if (p.softcap > 0) {
      const float tanh = 1 - __fdividef(2, 1 + ptx::exp2_approx(x * (2 * log2_e_f) / p.softcap));
      cap_slope = 1 - tanh * tanh;
      x = p.softcap * tanh;
    }
    if (p.bias.data != nullptr)
      x += load_element(p.bias.data, p.bias.dtype, bias + query * p.bias.stride_q + key * p.bias.stride_kv);
    return x - slope * fabsf(static_cast<float>(query + shift - key));
  }
};

// P = exp(s - lse): the difference first, so that scores near the largest float cancel. An empty row's lse is +inf
// here.
__device__ __forceinline__ float natural_probability(float score, float lse, float shift) {
  return ptx::exp2_approx(fmaf(score - lse, log2_e_f, shift));
}

}  // namespace anymask
