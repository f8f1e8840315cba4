// Biases compared as integers, for the kinds that keep keys by them, on host and device alike.
// A code orders the values of one format as integers are ordered: the magnitude's bits, negative with the sign, so that
// -0 is 0. NaNs lie beyond both infinities. Of a leaf: ints[0] is the code of infinity; data[0] the bias, float32,
// float16 or bfloat16 [rows, s_kv], bytes an element in size[0]; stride[0] elements from row to row (0: one row for
// all) and from key to key.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct BiasCodes {
  static ANYMASK_HOST_DEVICE int32_t code(uint32_t x) {
    const auto magnitude = static_cast<int32_t>(x & 0x7fffffffu);
    return x >> 31 ? -magnitude : magnitude;
  }
  static ANYMASK_HOST_DEVICE int16_t code(uint16_t x) {
    const int magnitude = x & 0x7fff;
    return static_cast<int16_t>(x >> 15 ? -magnitude : magnitude);
  }

  static ANYMASK_HOST_DEVICE int32_t code_at(const LeafArgs& a, int64_t q, int64_t kv) {
    const int64_t at = q * a.stride[0][0] + kv * a.stride[0][1];
    return a.size[0] == 4 ? code(static_cast<const uint32_t*>(a.data[0])[at])
                          : code(static_cast<const uint16_t*>(a.data[0])[at]);
  }

  // Bit i: the code of key kv_begin + i is `least`, which is above every negative NaN's, to infinity's.
  static ANYMASK_HOST_DEVICE uint64_t at_least(const LeafArgs& a, int64_t q, int64_t kv_begin, int64_t least) {
    if (least > a.ints[0]) return 0;
    const int64_t at = q * a.stride[0][0] + kv_begin * a.stride[0][1], count = min_of(64, a.s_kv - kv_begin);
    return a.size[0] == 4 ? at_least(a, static_cast<const uint32_t*>(a.data[0]) + at, count, least)
                          : at_least(a, static_cast<const uint16_t*>(a.data[0]) + at, count, least);
  }

 private:
  template <class T>
  static ANYMASK_HOST_DEVICE uint64_t at_least(const LeafArgs& a, const T* values, int64_t count, int64_t least) {
    const auto lowest = static_cast<T>(least), span = static_cast<T>(a.ints[0] - least);
    uint64_t bits = 0;
    if (count == 64 && a.stride[0][1] == 1) {
      uint8_t kept[64];  // comparing and packing apart lets both run on vectors
      for (int i = 0; i < 64; ++i) kept[i] = static_cast<T>(static_cast<T>(code(values[i])) - lowest) <= span;
      for (int i = 0; i < 64; i += 8) {
        uint64_t flags;
        __builtin_memcpy(&flags, kept + i, 8);
        bits |= pack_flags(flags) << i;
      }
      return bits;
    }
    for (int64_t i = 0; i < count; ++i) {
      bits |= uint64_t{static_cast<T>(static_cast<T>(code(values[i * a.stride[0][1]])) - lowest) <= span} << i;
    }
    return bits;
  }
};

}  // namespace anymask
