// Numbers of any type a bias, a slope or a sink may have, and the base of exp2.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/attention_params.h"

namespace anymask {

inline constexpr float log2_e_f = 1.4426950408889634f;

__device__ __forceinline__ float load_element(const void* data, DType type, int64_t index) {
  switch (type) {
    case DType::f32:
      return __ldg(static_cast<const float*>(data) + index);
    case DType::f16:
      return __half2float(__ldg(static_cast<const __half*>(data) + index));
    default:
      return __uint_as_float(uint32_t{__ldg(static_cast<const uint16_t*>(data) + index)} << 16);
  }
}

// Of 16 bits: f16 or bf16.
__device__ __forceinline__ float element_of(uint16_t bits, DType type) {
  if (type != DType::f16) return __uint_as_float(uint32_t{bits} << 16);
  return __half2float(__half{__half_raw{bits}});
}
__device__ __forceinline__ uint16_t element_bits(float x, DType type) {
  if (type == DType::f16) return static_cast<__half_raw>(__float2half_rn(x)).x;
  return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x;
}

// One number of a [b | 1, h_q] array.
__device__ __forceinline__ float per_head(const CudaPerHead& x, int sequence, int head) {
  return load_element(x.data, x.dtype, sequence * x.stride_b + head * x.stride_h);
}

}  // namespace anymask
