// chunked(size): p / size == kv / size, rounding down. ints: size.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Chunked {
  // Exact: the chunks of rows and of keys are ranges, and every chunk between the ends of both has rows and keys.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t size = a.ints[0];
    const int64_t first_row = floor_div(r.q_begin + a.shift, size), last_row = floor_div(r.q_end - 1 + a.shift, size);
    const int64_t first_key = r.kv_begin / size, last_key = (r.kv_end - 1) / size;
    if (last_row < first_key || last_key < first_row) return Kept::empty;
    return first_row == last_key && last_row == first_key ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return floor_div(q + a.shift, a.ints[0]) == kv / a.ints[0];
  }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t q) {
    const int64_t begin = floor_div(q + a.shift, a.ints[0]) * a.ints[0];
    return clip(begin, begin + a.ints[0], a.s_kv);
  }
  static BandEnds ends(const LeafArgs& a) {
    BandEnd begin{.form = BandEnd::Form::floor, .a = a.shift, .size = a.ints[0], .high = a.s_kv}, end = begin;
    end.a += end.size;
    return {begin, end};
  }
};

}  // namespace anymask
