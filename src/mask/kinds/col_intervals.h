// col_intervals(begin, end): begin[kv, i] <= q < end[kv, i] for some i. Lines of the table are keys.
#pragma once

#include "mask/kinds/interval_table.h"

namespace anymask {

struct ColIntervals {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    return IntervalTable::classify(a, r.kv_begin, r.kv_end, r.q_begin, r.q_end);
  }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs& a, const Rect& r) {
    return IntervalTable::sketch(a, r.kv_begin, r.kv_end, r.q_begin, r.q_end);
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return IntervalTable::holds(a, kv, q);
  }
  // 64 rows of one key: what a device's warp, a key a lane, turns into words of rows.
  static ANYMASK_HOST_DEVICE uint64_t col_word(const LeafArgs& a, int64_t kv, int64_t q_begin) {
    const int64_t n = a.ints[0], first = IntervalTable::line_index(a, kv) * n;
    uint64_t kept = 0;
    for (int64_t i = first; i < first + n; ++i) {
      kept |= bit_range(IntervalTable::begins(a)[i] - q_begin, IntervalTable::ends(a)[i] - q_begin);
    }
    return kept;
  }
  // A key's bit changes where one of its intervals begins or ends (they are disjoint): note the changes
  // in their rows, then sum them downwards. Costs the intervals and the words, whatever is kept.
  static ANYMASK_HOST_DEVICE void words(const LeafArgs& a, int64_t q_begin, int64_t rows, int64_t kv_begin,
                                        int64_t words, uint64_t* bits) {
    for (int64_t i = 0; i < rows * words; ++i) bits[i] = 0;
    const int64_t n = a.ints[0], kv_end = min_of(kv_begin + 64 * words, a.s_kv);
    for (int64_t kv = kv_begin; kv < kv_end; ++kv) {
      uint64_t* column = bits + (kv - kv_begin) / 64;
      const uint64_t bit = uint64_t{1} << ((kv - kv_begin) % 64);
      const int64_t first = IntervalTable::line_index(a, kv) * n;
      for (int64_t i = first; i < first + n; ++i) {
        const int64_t begin = max_of(IntervalTable::begins(a)[i] - q_begin, 0),
                      end = IntervalTable::ends(a)[i] - q_begin;
        if (begin >= rows || end <= begin) continue;
        column[begin * words] ^= bit;
        if (end < rows) column[end * words] ^= bit;
      }
    }
    for (int64_t i = words; i < rows * words; ++i) bits[i] ^= bits[i - words];
  }
};

}  // namespace anymask
