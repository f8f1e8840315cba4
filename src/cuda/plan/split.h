// Whether rows of tiles may be cut into pieces, by what is known on the host.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/launch/kernel.h"
#include "mask/bound_mask.h"

namespace anymask {

struct PlaneUse {
  int64_t pairs;    // of sequence and head that use the plane
  int64_t n_tiles;  // along its rows
};

// Whether no row can be long enough to be cut, by what is known without building a plan. `uses` of each plane; `items`
// when nothing is cut.
bool never_split(const BoundMask& mask, std::span<const PlaneUse> uses, int64_t items, const PlanShape& shape);

}  // namespace anymask
