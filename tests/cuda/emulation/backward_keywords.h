// What the kernels of the backward use beside device_keywords.h: sums in memory, which is one block's at a time.
#pragma once

#include <cuda_bf16.h>

#include "cuda/emulation/device_keywords.h"

#define __noinline__  // standard headers give it as an attribute, which may be none

inline float atomicAdd(float* to, float value) {
  const float before = *to;
  *to += value;
  return before;
}
inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long value) {
  const unsigned long long before = *to;
  *to += value;
  return before;
}
inline unsigned atomicMax(unsigned* to, unsigned value) {
  const unsigned before = *to;
  *to = std::max(before, value);
  return before;
}
inline long long __float2ll_rn(float x) { return std::llrint(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
// Where lanes may have left their warp, each is on its own.
inline unsigned __activemask() { return 0; }
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
  if (mask != 0) throw anymask::emulation::Fault("__reduce_max_sync of unsigned numbers: of no whole warp");
  return value;
}
