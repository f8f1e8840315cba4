// prefix(n): kv < n. ints: n of this batch entry, clipped to the keys.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Prefix {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    if (r.kv_begin >= a.ints[0]) return Kept::empty;
    return r.kv_end <= a.ints[0] ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t, int64_t kv) { return kv < a.ints[0]; }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t) { return {0, a.ints[0]}; }
};

}  // namespace anymask
