// Exact counts by the descent of the builder, over pairs instead of tiles: nothing is stored.
#include <algorithm>

#include "core/error.h"
#include "plan/bits.h"
#include "plan/builder.h"

namespace anymask {
namespace {

// Rectangles this small are evaluated. Wider than tall: a word holds 64 keys.
constexpr int64_t leaf_rows = 64, leaf_keys = 256;

int64_t count_bits(const PlaneMask& plane, const Rect& r) {
  constexpr int64_t max_words = leaf_keys / 64 + 1;
  uint64_t bits[leaf_rows * max_words];
  const int64_t rows = r.q_end - r.q_begin, key = r.kv_begin & ~int64_t{63}, words = (r.kv_end - key + 63) / 64;
  plane.words(r.q_begin, rows, key, words, bits);
  const uint64_t first = bits_between(r.kv_begin - key, 64), last = bits_between(0, r.kv_end - key - (words - 1) * 64);
  for (int64_t i = 0; i < rows; ++i) {
    bits[i * words] &= first;
    bits[i * words + words - 1] &= last;
  }
  return count_ones(bits, static_cast<size_t>(rows * words));
}

int64_t count(const PlaneMask& plane, const Rect& r) {
  const Kept kept = plane.classify(r);
  const int64_t rows = r.q_end - r.q_begin, keys = r.kv_end - r.kv_begin;
  if (kept == Kept::empty) return 0;
  if (kept == Kept::full) return rows * keys;
  if (rows <= leaf_rows && keys <= leaf_keys) return count_bits(plane, r);
  Rect first = r, second = r;
  if (keys > leaf_keys && (rows <= leaf_rows || keys >= rows)) {
    first.kv_end = second.kv_begin = (r.kv_begin + keys / 2) & ~int64_t{63};
  } else {
    first.q_end = second.q_begin = r.q_begin + rows / 2;
  }
  return count(plane, first) + count(plane, second);
}

}  // namespace

int64_t count_kept(const PlaneMask& plane, const Rect& r) {
  if (r.q_begin < 0 || r.q_end > plane.s_q || r.kv_begin < 0 || r.kv_end > plane.s_kv) {
    fail_invalid("count: rows [", r.q_begin, ", ", r.q_end, ") and keys [", r.kv_begin, ", ", r.kv_end,
                 ") reach outside the plane of ", plane.s_q, " rows and ", plane.s_kv, " keys");
  }
  if (r.q_begin >= r.q_end || r.kv_begin >= r.kv_end) return 0;
  int64_t pairs = 0;
  if (__builtin_mul_overflow(r.q_end - r.q_begin, r.kv_end - r.kv_begin, &pairs)) {
    fail_invalid("count: ", r.q_end - r.q_begin, " rows x ", r.kv_end - r.kv_begin,
                 " keys are more pairs than 64 bits count: count pieces");
  }
  return count(plane, r);
}

int64_t count_kept(const PlaneMask& plane) { return count_kept(plane, {0, plane.s_q, 0, plane.s_kv}); }

}  // namespace anymask
