// prefix(n): kv < n. ints: n of this batch entry, clipped to the keys. data[0]: int64 n instead, where a device knows
// it.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Prefix {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t n = length(a);
    if (r.kv_begin >= n) return Kept::empty;
    return r.kv_end <= n ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t, int64_t kv) { return kv < length(a); }
  static bool same_rows(const LeafArgs&) { return true; }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t) { return {0, length(a)}; }
  static ANYMASK_HOST_DEVICE int64_t length(const LeafArgs& a) {
    return a.data[0] != nullptr ? *static_cast<const int64_t*>(a.data[0]) : a.ints[0];
  }
  static BandEnds ends(const LeafArgs& a) { return {{}, {.low = a.ints[0], .high = a.ints[0]}}; }
};

}  // namespace anymask
