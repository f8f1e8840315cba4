// One plane as it is evaluated: a flat postfix list over bound leaves, no tree and no recursion, so that a device can
// run it too.
//
// Operands are ordered so that the stack stays logarithmic: the one that needs most stack first, which leaves k levels
// in use only where 2^(k - 1) leaves are. Between operands stand skips: an EMPTY value ends a conjunction, a FULL one a
// disjunction.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mask/bound_mask.h"
#include "mask/kind.h"

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
inline Interval band_and(Interval a, Interval b) {
  const int64_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
  return {begin, begin > end ? begin : end};
}
// Both begin at 0, or both end at s_kv, in every row.
inline Interval band_or(Interval a, Interval b) {
  return {a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}
inline Interval band_not(Interval a, bool from_begin, int64_t s_kv) {
  return from_begin ? Interval{a.end, s_kv} : Interval{0, a.begin};
}

struct PlaneMask::Code {
  std::vector<PlaneStep> steps;
  std::vector<std::shared_ptr<const BoundLeaf>> leaves;
  uint32_t stack = 1;  // levels in use at most
  bool band = false;
  Digest digest{};
};

}  // namespace anymask
