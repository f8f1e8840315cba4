#include "cuda/plan/split.h"

#include <algorithm>

#include "cuda/plan/capacity.h"
#include "cuda/plan/plan_data.h"

namespace anymask {

bool never_split(const BoundMask& mask, std::span<const PlaneUse> uses, int64_t items, const PlanShape& shape) {
  if (shape.parallelism <= 0) return true;
  int64_t least = item_cost * items;  // cost of all items
  int64_t longest = 0;                // tiles of a row
  for (size_t p = 0; p < uses.size(); ++p) {
    const BandCost cost = shape.transposed ? BandCost{} : band_cost(mask.planes[p], shape.tile_m / shape.fold);
    if (cost.known) least += full_cost * cost.full_tiles * uses[p].pairs;
    longest = std::max(longest, cost.known ? cost.longest : uses[p].n_tiles);
  }
  return partial_cost * longest <=
         std::max<int64_t>(2 * shortest_piece * full_cost, 2 * least / (most_cuts * int64_t{shape.parallelism}));
}

}  // namespace anymask
