// full, none: always, never.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Full {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs&, const Rect&) { return Kept::full; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs&, int64_t, int64_t) { return true; }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t) { return {0, a.s_kv}; }
};

struct None {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs&, const Rect&) { return Kept::empty; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs&, int64_t, int64_t) { return false; }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs&, int64_t) { return {0, 0}; }
};

}  // namespace anymask
