// shared_prefix(n, lengths): kv <= p and (kv < n, or p and kv lie in the same segment).
// ints: n, segments. data[0]: int64 [segments + 1] offsets of the segments, the first n, the last s_kv.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct SharedPrefix {
  static ANYMASK_HOST_DEVICE const int64_t* offsets(const LeafArgs& a) {
    return static_cast<const int64_t*>(a.data[0]);
  }

  // Exact: cut at n into the keys all see and the keys of segments.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t n = a.ints[0], p_begin = r.q_begin + a.shift, p_end = r.q_end + a.shift;
    KeptSum sum;
    if (r.kv_begin < n) sum.add(classify_causal(p_begin, p_end, r.kv_begin, min_of(r.kv_end, n)));
    if (r.kv_end > n) sum.add(classify_segments(a, p_begin, p_end, max_of(r.kv_begin, n), r.kv_end));
    return sum.result();
  }
  static ANYMASK_HOST_DEVICE Kept classify_segments(const LeafArgs& a, int64_t p_begin, int64_t p_end, int64_t kv_begin,
                                                    int64_t kv_end) {
    const int64_t segments = a.ints[1];
    const int64_t first_row = find_stretch(offsets(a), segments, p_begin),
                  last_row = find_stretch(offsets(a), segments, p_end - 1);
    const int64_t first_key = find_stretch(offsets(a), segments, kv_begin),
                  last_key = find_stretch(offsets(a), segments, kv_end - 1);
    const int64_t first = max_of(first_row, first_key), last = min_of(last_row, last_key);
    if (first > last) return Kept::empty;
    if (first < last)
      return Kept::partial;  // both ranges hold the end of segment `first`: a diagonal pair is kept, others are not
    if (first < 0 || first >= segments) return Kept::empty;
    const int64_t begin = offsets(a)[first], end = offsets(a)[first + 1];
    const Kept inside =
        classify_causal(max_of(p_begin, begin), min_of(p_end, end), max_of(kv_begin, begin), min_of(kv_end, end));
    const bool whole = first_row == last_row && first_key == last_key;
    return inside == Kept::full && !whole ? Kept::partial : inside;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int64_t p = q + a.shift;
    return kv <= p && (kv < a.ints[0] || kv >= segment_begin(a, p));
  }
  // First key of the segment of p; s_kv where p lies in none.
  static ANYMASK_HOST_DEVICE int64_t segment_begin(const LeafArgs& a, int64_t p) {
    const int64_t segment = find_stretch(offsets(a), a.ints[1], p);
    return segment < 0 || segment >= a.ints[1] ? a.s_kv : offsets(a)[segment];
  }
  static ANYMASK_HOST_DEVICE void row_words(const LeafArgs& a, int64_t q, int64_t kv_begin, int64_t words,
                                            uint64_t* bits) {
    const int64_t p = q + a.shift;
    const Interval prefix = clip(0, min_of(a.ints[0], p + 1), a.s_kv),
                   segment = clip(segment_begin(a, p), p + 1, a.s_kv);
    for (int64_t w = 0; w < words; ++w) {
      bits[w] = interval_word(prefix, kv_begin + 64 * w) | interval_word(segment, kv_begin + 64 * w);
    }
  }
};

}  // namespace anymask
