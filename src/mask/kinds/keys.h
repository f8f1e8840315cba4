// keys(a, b): a <= kv < b. ints: a, b, clipped to the keys.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Keys {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    if (r.kv_end <= a.ints[0] || r.kv_begin >= a.ints[1]) return Kept::empty;
    return a.ints[0] <= r.kv_begin && r.kv_end <= a.ints[1] ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t, int64_t kv) {
    return a.ints[0] <= kv && kv < a.ints[1];
  }
  static bool same_rows(const LeafArgs&) { return true; }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t) { return {a.ints[0], a.ints[1]}; }
  static BandEnds ends(const LeafArgs& a) {
    return {{.low = a.ints[0], .high = a.ints[0]}, {.low = a.ints[1], .high = a.ints[1]}};
  }
};

}  // namespace anymask
