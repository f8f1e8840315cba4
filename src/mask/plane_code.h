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
#include "mask/plane_steps.h"

namespace anymask {

struct PlaneMask::Code {
  std::vector<PlaneStep> steps;
  std::vector<std::shared_ptr<const BoundLeaf>> leaves;
  uint32_t stack = 1;  // levels in use at most
  bool band = false;
  bool unread = false;  // some leaf is
  Digest digest{};
};

}  // namespace anymask
