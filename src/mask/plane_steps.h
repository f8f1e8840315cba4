// The steps of a plane's flat postfix form and the algebra of bands, on host and device alike.
#pragma once

#include <cstdint>

#include "mask/leaf.h"

namespace anymask {

inline constexpr int max_stack = 64;

enum class Step : uint8_t { leaf, full, empty, op_not, op_and, op_or, skip_if_empty, skip_if_full };

struct PlaneStep {
  Step step = Step::full;
  bool from_begin =
      false;        // op_not of a band: its operand begins at key 0 in every row (else it ends at s_kv in every row)
  uint32_t at = 0;  // leaf: its index; skips: the step to go on with
};

// The algebra of bands. Empty rows have begin == end, and max(begin, end) of two monotone ends is monotone again.
ANYMASK_HOST_DEVICE Interval band_and(Interval a, Interval b) {
  const int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
  return {begin, begin > end ? begin : end};
}
// Both begin at 0, or both end at s_kv, in every row.
ANYMASK_HOST_DEVICE Interval band_or(Interval a, Interval b) {
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}
ANYMASK_HOST_DEVICE Interval band_not(Interval a, bool from_begin, int64_t s_kv) {
  return from_begin ? Interval{a.end, s_kv} : Interval{0, a.begin};
}

}  // namespace anymask
