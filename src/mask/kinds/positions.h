// positions(a, b): a <= p < b. ints: a, b as rows, clipped to the rows: a <= q < b.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Positions {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    if (r.q_end <= a.ints[0] || r.q_begin >= a.ints[1]) return Kept::empty;
    return a.ints[0] <= r.q_begin && r.q_end <= a.ints[1] ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t) {
    return a.ints[0] <= q && q < a.ints[1];
  }
  // Empty at 0 before the range and at s_kv behind it: both ends stay monotone.
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t q) {
    if (q < a.ints[0]) return {0, 0};
    return {q < a.ints[1] ? 0 : a.s_kv, a.s_kv};
  }
  static BandEnds ends(const LeafArgs& a) {
    constexpr auto step = BandEnd::Form::step;
    return {{.form = step, .a = -a.ints[1], .high = a.s_kv}, {.form = step, .a = -a.ints[0], .high = a.s_kv}};
  }
};

}  // namespace anymask
