// Reading and writing single elements of any float type. Slow and plain: the reference and the yardstick alone use it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.h"
#include "core/error.h"

namespace anymask {

inline double load(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::f64:
      return static_cast<const double*>(data)[index];
    case DType::f32:
      return double{static_cast<const float*>(data)[index]};
    case DType::f16:
      return double{f16_to_f32(static_cast<const uint16_t*>(data)[index])};
    case DType::bf16:
      return double{bf16_to_f32(static_cast<const uint16_t*>(data)[index])};
    default:
      throw Error(Status::internal, "reference: an element that is not floating point");
  }
}

// double -> float such that rounding the float to a narrower type rounds the double once: round to odd. (Rounding to
// nearest twice can land on the wrong neighbour when the first rounding hits a tie of the second.)
inline float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (double{nearest} == x || !std::isfinite(nearest)) return nearest;
  const float toward_zero = std::fabs(double{nearest}) > std::fabs(x) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(toward_zero) | 1u);
}

inline void store(void* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(data)[index] = value;
      return;
    case DType::f32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DType::f16:
      static_cast<uint16_t*>(data)[index] = f32_to_f16(round_to_odd(value));
      return;
    case DType::bf16:
      static_cast<uint16_t*>(data)[index] = f32_to_bf16(round_to_odd(value));
      return;
    default:
      throw Error(Status::internal, "reference: an element that is not floating point");
  }
}

}  // namespace anymask
