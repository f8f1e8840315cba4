// Products of two fp16 values at a time, with one rounding.
#pragma once

#include <cstdint>

namespace anymask::ptx {

// x y + z.
__device__ __forceinline__ uint32_t half_fma(uint32_t x, uint32_t y, uint32_t z) {
  uint32_t result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));
  return result;
}
// Clamped to [0, 1]; NaN becomes 0.
__device__ __forceinline__ uint32_t half_line(uint32_t x, uint32_t scale, uint32_t offset) {
  uint32_t result;
  asm("fma.rn.sat.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(scale), "r"(offset));
  return result;
}

}  // namespace anymask::ptx
