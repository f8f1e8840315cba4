// Element types, and the 16-bit float conversions every backend shares.
#pragma once

#include <bit>
#include <cstdint>

namespace anymask {

enum class DType : uint8_t { f32, f16, bf16, f64, i32, i64, u8, boolean };

constexpr int64_t size_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    case DType::f64:
      return "float64";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
    case DType::u8:
      return "uint8";
    case DType::boolean:
      return "bool";
  }
  return "?";
}

constexpr bool is_floating(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 || type == DType::f64;
}
constexpr bool is_integer(DType type) { return type == DType::i32 || type == DType::i64; }

// bfloat16 is the upper half of a float: widening is exact, narrowing rounds to nearest even.
constexpr float bf16_to_f32(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
constexpr uint16_t f32_to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);  // keep NaN a NaN
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// IEEE binary16, by integer arithmetic: subnormals and rounding to nearest even included.
constexpr float f16_to_f32(uint16_t x) {
  const uint32_t sign = uint32_t{x & 0x8000u} << 16;
  const uint32_t exponent = (x >> 10) & 0x1fu;
  uint32_t mantissa = x & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(mantissa) - 21;  // bring the leading one to bit 10
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(113 - shift) << 23) | (mantissa << 13));
}
constexpr uint16_t f32_to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x33000001u) return sign;                                    // rounds to zero
  if (magnitude < 0x38800000u) {                                               // subnormal result
    const uint32_t shift = 126 - (magnitude >> 23);
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t half = 1u << (shift - 1);
    const uint32_t rounded = (mantissa + half - 1 + ((mantissa >> shift) & 1u)) >> shift;
    return static_cast<uint16_t>(sign | rounded);
  }
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
}

}  // namespace anymask
