// block_diffusion(seq, block): keys [0, seq) are the noisy half, [seq, 2 seq) the clean one. Noisy rows keep their own
// noisy block and the clean blocks before it; clean rows keep the clean blocks up to their own. ints: seq, block.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct BlockDiffusion {
  // Exact: the four quarters of the plane one by one.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t seq = a.ints[0], p_begin = r.q_begin + a.shift, p_end = r.q_end + a.shift;
    KeptSum sum;
    if (p_begin < 0 || p_end > 2 * seq) sum.add(Kept::empty);
    for (int half = 0; half < 2; ++half) {
      const int64_t begin = max_of(p_begin - half * seq, 0), end = min_of(p_end - half * seq, seq);
      if (begin >= end) continue;
      const int64_t first = begin / a.ints[1], last = (end - 1) / a.ints[1];
      if (r.kv_begin < seq) {
        sum.add(half == 1
                    ? Kept::empty
                    : classify_equal(first, last, r.kv_begin / a.ints[1], (min_of(r.kv_end, seq) - 1) / a.ints[1]));
      }
      if (r.kv_end > seq) {  // a noisy row stops one block before its own
        const int64_t first_key = max_of(r.kv_begin - seq, 0) / a.ints[1], last_key = (r.kv_end - 1 - seq) / a.ints[1];
        sum.add(classify_causal(first - (1 - half), last + half, first_key, last_key + 1));
      }
    }
    return sum.result();
  }
  static ANYMASK_HOST_DEVICE Kept classify_equal(int64_t first, int64_t last, int64_t first_key, int64_t last_key) {
    if (last < first_key || last_key < first) return Kept::empty;
    return first == last_key && last == first_key ? Kept::full : Kept::partial;
  }

  // Kept keys of a row: its noisy block, and the clean keys before `clean_end`.
  struct Row {
    Interval noisy, clean;
  };
  static ANYMASK_HOST_DEVICE Row row(const LeafArgs& a, int64_t q) {
    const int64_t seq = a.ints[0], block = a.ints[1], p = q + a.shift;
    if (p < 0 || p >= 2 * seq) return {{0, 0}, {seq, seq}};
    const bool noisy = p < seq;
    const int64_t begin = (noisy ? p : p - seq) / block * block, end = min_of(begin + block, seq);
    return {{noisy ? begin : 0, noisy ? end : 0}, {seq, seq + (noisy ? begin : end)}};
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const Row kept = row(a, q);
    return (kept.noisy.begin <= kv && kv < kept.noisy.end) || (kept.clean.begin <= kv && kv < kept.clean.end);
  }
  static ANYMASK_HOST_DEVICE void row_words(const LeafArgs& a, int64_t q, int64_t kv_begin, int64_t words,
                                            uint64_t* bits) {
    const Row kept = row(a, q);
    for (int64_t w = 0; w < words; ++w) {
      bits[w] = interval_word(kept.noisy, kv_begin + 64 * w) | interval_word(kept.clean, kv_begin + 64 * w);
    }
  }
};

}  // namespace anymask
