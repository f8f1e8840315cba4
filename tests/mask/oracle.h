// The mask table of the documentation, said again as plainly as possible: one pair at a time, straight from the
// arguments as the user gave them. Shares nothing with the leaves but the program it reads.
#pragma once

#include <span>

#include "core/problem.h"
#include "mask/mask.h"

namespace anymask::oracle {

struct Plane {
  int64_t s_q, s_kv, batch, head, h_q, h_kv;
  friend bool operator==(const Plane&, const Plane&) = default;
};

bool keep(const Mask& mask, const Plane& plane, int64_t q, int64_t kv);

}  // namespace anymask::oracle
