// topk(bias, window, among): of the keys that `among` keeps, the `window` largest biases of the row.
// What a row keeps is decided by two integers, found when the mask is bound (mask/select.h): a key whose code lies
// above `key`, or equals it and stands no further than `tie`. The candidates are an operand of their own, so they are
// not looked at here. Codes order values of one format like integers: the magnitude's bits, negative with the sign, so
// that -0 is 0; NaNs lie beyond both infinities. ints[0]: the code of infinity. data[0]: float32, float16 or bfloat16
// [rows, s_kv], bytes an element in size[0]; stride[0]: elements from row to row (0: one row for all) and from key to
// key. data[1]: a TopkRow for each row, or with stride[1][0] = 0 one for all. Where the bias lies on
// a device ints[1] is the window and type[0] the bias's type: what selects there reads them.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

// Canonical: `key` is the code of the least bias kept and `tie` the last key kept that has it. A row that keeps every
// candidate with a bias above -inf has {the code of -inf, -1}; one that keeps nothing {INT32_MAX, -1}.
struct TopkRow {
  int32_t key, tie;
  friend bool operator==(const TopkRow&, const TopkRow&) = default;
};
inline constexpr TopkRow topk_nothing{INT32_MAX, -1};

struct Topk {
  static ANYMASK_HOST_DEVICE int32_t code(uint32_t x) {
    const auto magnitude = static_cast<int32_t>(x & 0x7fffffffu);
    return x >> 31 ? -magnitude : magnitude;
  }
  static ANYMASK_HOST_DEVICE int16_t code(uint16_t x) {
    const int magnitude = x & 0x7fff;
    return static_cast<int16_t>(x >> 15 ? -magnitude : magnitude);
  }
  static ANYMASK_HOST_DEVICE TopkRow row(const LeafArgs& a, int64_t q) {
    return static_cast<const TopkRow*>(a.data[1])[q * a.stride[1][0]];
  }

  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) { return classify_by_words<Topk>(a, r); }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs&, const Rect&) { return Kept::partial; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int64_t at = q * a.stride[0][0] + kv * a.stride[0][1];
    const int32_t found = a.size[0] == 4 ? code(static_cast<const uint32_t*>(a.data[0])[at])
                                         : code(static_cast<const uint16_t*>(a.data[0])[at]);
    const TopkRow kept = row(a, q);
    return found <= a.ints[0] && (found > kept.key || (found == kept.key && kv <= kept.tie));
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    const int64_t at = q * a.stride[0][0] + kv_begin * a.stride[0][1], count = min_of(64, a.s_kv - kv_begin);
    const TopkRow kept = row(a, q);
    const auto with_ties = [&](int64_t least) {
      if (least > a.ints[0]) return uint64_t{0};
      return a.size[0] == 4 ? at_least(a, static_cast<const uint32_t*>(a.data[0]) + at, count, least)
                            : at_least(a, static_cast<const uint16_t*>(a.data[0]) + at, count, least);
    };
    const int64_t ties = kept.tie + 1 - kv_begin;  // so many keys of this word keep what equals `key`
    if (ties <= 0) return with_ties(int64_t{kept.key} + 1);
    const uint64_t bits = with_ties(kept.key);
    return ties >= 64 ? bits : bits & (bit_range(0, ties) | with_ties(int64_t{kept.key} + 1));
  }
  // Codes from `least`, which is above every negative NaN's, to infinity's.
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
