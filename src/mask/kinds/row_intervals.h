// row_intervals(begin, end): begin[q, i] <= kv < end[q, i] for some i. Lines of the table are rows.
#pragma once

#include "mask/kinds/interval_table.h"

namespace anymask {

struct RowIntervals {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    return IntervalTable::classify(a, r.q_begin, r.q_end, r.kv_begin, r.kv_end);
  }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs& a, const Rect& r) {
    return IntervalTable::sketch(a, r.q_begin, r.q_end, r.kv_begin, r.kv_end);
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return IntervalTable::holds(a, q, kv);
  }
  // Where each row lists one interval and these move forward, which nobody but the maker of a row_band knows.
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t q) {
    const int64_t line = IntervalTable::line_index(a, q);
    return {IntervalTable::begins(a)[line], IntervalTable::ends(a)[line]};
  }
  static ANYMASK_HOST_DEVICE void row_words(const LeafArgs& a, int64_t q, int64_t kv_begin, int64_t words,
                                            uint64_t* bits) {
    for (int64_t w = 0; w < words; ++w) bits[w] = 0;
    const int64_t n = a.ints[0], first = IntervalTable::line_index(a, q) * n;
    for (int64_t i = first; i < first + n; ++i) {
      const int64_t begin = max_of(IntervalTable::begins(a)[i] - kv_begin, 0);
      const int64_t end = min_of(IntervalTable::ends(a)[i] - kv_begin, 64 * words);
      for (int64_t w = begin / 64; w * 64 < end; ++w) bits[w] |= bit_range(begin - 64 * w, end - 64 * w);
    }
  }
};

}  // namespace anymask
