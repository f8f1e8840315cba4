// window(left, right): p - left <= kv <= p + right. ints: left, right; an open side is a distance no plane has.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Window {
  // Exact: the differences kv - p of a rectangle are a range of integers, and so are the kept ones.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t lowest = r.kv_begin - (r.q_end - 1 + a.shift), highest = r.kv_end - 1 - (r.q_begin + a.shift);
    if (highest < -a.ints[0] || lowest > a.ints[1]) return Kept::empty;
    return lowest >= -a.ints[0] && highest <= a.ints[1] ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int64_t difference = kv - (q + a.shift);
    return -a.ints[0] <= difference && difference <= a.ints[1];
  }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t q) {
    const int64_t p = q + a.shift;
    return clip(p - a.ints[0], p + a.ints[1] + 1, a.s_kv);
  }
  static BandEnds ends(const LeafArgs& a) {
    return {{.a = a.shift - a.ints[0], .high = a.s_kv}, {.a = a.shift + a.ints[1] + 1, .high = a.s_kv}};
  }
};

}  // namespace anymask
