// threshold(bias, t): bias >= t; NaN is never kept.
// Floats are compared as integers: flipping the bits of a negative one and the sign bit of the others makes their order
// that of unsigned integers, in every format. What is kept lies between the least float >= t and +infinity, NaNs
// outside. ints: the keys of those two. data[0]: float32, float16 or bfloat16 [rows, s_kv], bytes an element in
// size[0]; stride[0]: elements from row to row (0: one row for all) and from key to key.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Threshold {
  static ANYMASK_HOST_DEVICE uint32_t order_key(uint32_t x) { return x ^ (0x80000000u | (0u - (x >> 31))); }
  static ANYMASK_HOST_DEVICE uint16_t order_key(uint16_t x) {
    return static_cast<uint16_t>(x ^ (0x8000 | (0 - (x >> 15))));
  }

  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    return classify_by_words<Threshold>(a, r);
  }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs&, const Rect&) { return Kept::partial; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int64_t at = q * a.stride[0][0] + kv * a.stride[0][1];
    const uint32_t key = a.size[0] == 4 ? order_key(static_cast<const uint32_t*>(a.data[0])[at])
                                        : order_key(static_cast<const uint16_t*>(a.data[0])[at]);
    return key - static_cast<uint32_t>(a.ints[0]) <= static_cast<uint32_t>(a.ints[1] - a.ints[0]);
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    const int64_t at = q * a.stride[0][0] + kv_begin * a.stride[0][1], count = min_of(64, a.s_kv - kv_begin);
    return a.size[0] == 4 ? compare(a, static_cast<const uint32_t*>(a.data[0]) + at, count)
                          : compare(a, static_cast<const uint16_t*>(a.data[0]) + at, count);
  }
  template <class T>
  static ANYMASK_HOST_DEVICE uint64_t compare(const LeafArgs& a, const T* values, int64_t count) {
    const auto lowest = static_cast<T>(a.ints[0]), span = static_cast<T>(a.ints[1] - a.ints[0]);
    uint64_t bits = 0;
    if (count == 64 && a.stride[0][1] == 1) {
      uint8_t kept[64];  // comparing and packing apart lets both run on vectors
      for (int i = 0; i < 64; ++i) kept[i] = static_cast<T>(order_key(values[i]) - lowest) <= span;
      for (int i = 0; i < 64; i += 8) {
        uint64_t flags;
        __builtin_memcpy(&flags, kept + i, 8);
        bits |= pack_flags(flags) << i;
      }
      return bits;
    }
    for (int64_t i = 0; i < count; ++i) {
      bits |= uint64_t{static_cast<T>(order_key(values[i * a.stride[0][1]]) - lowest) <= span} << i;
    }
    return bits;
  }
};

}  // namespace anymask
