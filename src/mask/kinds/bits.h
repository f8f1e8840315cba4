// bits(packed): bit kv % 8 of byte kv / 8 of row q, little-endian in a byte.
// data[0]: uint8 [rows, bytes]; stride[0]: bytes from row to row (0: one row for all) and from byte to byte. size[0]:
// bytes a row.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Bits {
  static ANYMASK_HOST_DEVICE const uint8_t* row(const LeafArgs& a, int64_t q) {
    return static_cast<const uint8_t*>(a.data[0]) + q * a.stride[0][0];
  }
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) { return classify_by_words<Bits>(a, r); }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs&, const Rect&) { return Kept::partial; }
  static bool same_rows(const LeafArgs& a) { return a.stride[0][0] == 0; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return row(a, q)[kv / 8 * a.stride[0][1]] >> (kv % 8) & 1;
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    const uint8_t* bytes = row(a, q) + kv_begin / 8 * a.stride[0][1];
    const int64_t count = min_of(8, a.size[0] - kv_begin / 8);
    uint64_t bits = 0;
    if (count == 8 && a.stride[0][1] == 1) return load_word(bytes);
    for (int64_t i = 0; i < count; ++i) bits |= uint64_t{bytes[i * a.stride[0][1]]} << (8 * i);
    return bits;
  }
};

}  // namespace anymask
