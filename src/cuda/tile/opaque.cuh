// A value the compiler cannot see through. What is derived from it is computed where it is used, instead of once
// outside a loop: that would hold a register each for a dozen cheap sums, and spill.
#pragma once

#include <cstdint>

namespace anymask {

__device__ __forceinline__ int32_t opaque(int32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
__device__ __forceinline__ uint32_t opaque(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}
__device__ __forceinline__ int64_t opaque(int64_t x) {
  asm volatile("" : "+l"(x));
  return x;
}

}  // namespace anymask
