// dense(array): the boolean; any byte but 0 keeps.
// data[0]: bool or uint8 [rows, s_kv]; stride[0]: from row to row (0: one row for all) and from key to key.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Dense {
  static ANYMASK_HOST_DEVICE const uint8_t* row(const LeafArgs& a, int64_t q) {
    return static_cast<const uint8_t*>(a.data[0]) + q * a.stride[0][0];
  }
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) { return classify_by_words<Dense>(a, r); }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs&, const Rect&) { return Kept::partial; }
  static bool same_rows(const LeafArgs& a) { return a.stride[0][0] == 0; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return row(a, q)[kv * a.stride[0][1]] != 0;
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    const uint8_t* bytes = row(a, q) + kv_begin * a.stride[0][1];
    const int64_t count = min_of(64, a.s_kv - kv_begin);
    uint64_t bits = 0;
    int64_t i = 0;
    if (a.stride[0][1] == 1) {
      for (; i + 8 <= count; i += 8) bits |= pack(bytes + i) << i;
    }
    for (; i < count; ++i) bits |= uint64_t{bytes[i * a.stride[0][1]] != 0} << i;
    return bits;
  }
  // Eight bytes to eight bits: the top bit of each byte is set where the byte is not 0.
  static ANYMASK_HOST_DEVICE uint64_t pack(const uint8_t* bytes) { return pack_bytes(load_word(bytes)); }
  static ANYMASK_HOST_DEVICE uint64_t pack_bytes(uint64_t x) {
    const uint64_t low = 0x7f7f7f7f7f7f7f7full;
    return pack_flags(((((x & low) + low) | x) & ~low) >> 7);
  }
};

}  // namespace anymask
