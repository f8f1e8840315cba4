// stride(n): (p - kv) mod n == 0. ints: n.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Stride {
  // Exact: the differences p - kv of a rectangle are a range of integers.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t n = a.ints[0];
    const int64_t lowest = r.q_begin + a.shift - (r.kv_end - 1), highest = r.q_end - 1 + a.shift - r.kv_begin;
    if (floor_div(lowest - 1, n) == floor_div(highest, n)) return Kept::empty;  // no multiple of n among them
    return n == 1 || lowest == highest ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return (q + a.shift - kv) % a.ints[0] == 0;
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    uint64_t bits = 0;
    for (int64_t i = floor_mod(q + a.shift - kv_begin, a.ints[0]); i < 64; i += a.ints[0]) bits |= uint64_t{1} << i;
    return bits;
  }
};

}  // namespace anymask
