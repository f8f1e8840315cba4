// Types of floats in memory, one float at a time, and the step from a runtime type to a static one.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"

namespace anymask {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct Pair32 {
  uint32_t bits;
};  // two 16-bit values moved as one, never computed with

inline float to_float(float x) { return x; }
inline float to_float(Bf16 x) { return bf16_to_f32(x.bits); }
inline float to_float(F16 x) { return f16_to_f32(x.bits); }
inline float to_float(Pair32 x) { return std::bit_cast<float>(x.bits); }
inline void from_float(float x, float& out) { out = x; }
inline void from_float(float x, Bf16& out) { out.bits = f32_to_bf16(x); }
inline void from_float(float x, F16& out) { out.bits = f32_to_f16(x); }

// f(T()) with T the storage type of f32, bf16 or f16.
template <class F>
inline void with_type(DType type, const F& f) {
  if (type == DType::f32) {
    f(float());
  } else if (type == DType::bf16) {
    f(Bf16());
  } else {
    f(F16());
  }
}

// Element `index` of an array of f32, bf16 or f16.
inline float element(const void* data, DType type, int64_t index) {
  float value = 0;
  with_type(type, [&](auto t) { value = to_float(static_cast<const decltype(t)*>(data)[index]); });
  return value;
}

}  // namespace anymask
