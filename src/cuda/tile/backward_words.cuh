// Small things of the portable backward: 16-bit pairs, fp32 additions to memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace anymask {

// P travels as P * 2^probability_shift. fp16 has 2^-24 for its smallest number and P is below that for most pairs of a
// long row; times 2^15 it keeps 11 bits down to 2^-29. bf16 has fp32's exponents.
template <class T>
inline constexpr float probability_shift = std::is_same_v<T, __half> ? 15.f : 0.f;
template <class T>
inline constexpr float probability_unit = std::is_same_v<T, __half> ? 1.f / 32768 : 1.f;

// The two numbers of a word of ptx::pack.
template <class T>
__device__ __forceinline__ float2 unpack(uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    __half2 pair;
    memcpy(&pair, &word, 4);
    return __half22float2(pair);
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
}

// sum + x . y of eight numbers each, in their order.
template <class T>
__device__ __forceinline__ float add_products(float sum, const uint4& x, const uint4& y) {
  const uint32_t left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 a = unpack<T>(left[i]), b = unpack<T>(right[i]);
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
  }
  return sum;
}

// Adds one accumulator of a warp, 16 rows x 8 columns, to its 128 floats in memory, in the accumulator's own order.
// Four numbers an instruction where the chip has that (4.4 times the rate of single ones on an H200); single ones go
// lane by lane, so that a warp's 32 meet in one line.
__device__ __forceinline__ void add_fragment(float* to, const float (&x)[4], int lane) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + lane * 4), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) atomicAdd(to + i * 32 + lane, x[i]);
#endif
}
// What add_fragment added up, back in the lane it came from.
__device__ __forceinline__ float4 load_fragment(const float* from, int lane) {
#if __CUDA_ARCH__ >= 900
  return *reinterpret_cast<const float4*>(from + lane * 4);
#else
  return {from[lane], from[32 + lane], from[64 + lane], from[96 + lane]};
#endif
}

}  // namespace anymask
