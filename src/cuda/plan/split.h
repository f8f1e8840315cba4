// Whether, and into how many pieces, rows of tiles are cut, by what is known on the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// Into how many pieces the rows of each plane of bands are cut, as the plan that says the same would be; 0: not all of
// them into as many. Time: that of two rows for each row of tiles.
std::vector<int32_t> band_pieces(const BoundMask& mask, std::span<const PlaneUse> uses, int64_t items,
                                 const PlanShape& shape);

}  // namespace anymask
