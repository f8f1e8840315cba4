// The 16-bit floating types, as files hold them: widening is exact, narrowing rounds to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace anymask::cli {

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t f32_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float f16_to_f32(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  float magnitude;
  if (exponent == 31) {
    magnitude = mantissa ? NAN : INFINITY;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline uint16_t f32_to_f16(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude == 0) return sign;
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);  // halfway past the largest, 65504
  int exponent = 0;
  std::frexp(magnitude, &exponent);                       // magnitude in [2^(exponent - 1), 2^exponent)
  const int unit = exponent < -13 ? -24 : exponent - 11;  // log2 of the spacing there; subnormals share 2^-24
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));  // ties to even
  // Adding the steps carries into the exponent by itself, as the encoding is monotone.
  if (exponent < -13) return static_cast<uint16_t>(sign | steps);
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + (steps - 1024)));
}

}  // namespace anymask::cli
