// How much memory a plan built on the device may need, known on the host without looking at the device.
//
// A bit tile goes to every tile that classification leaves mixed, a run to every change along a row of tiles. Both are
// bounded by what the mask's kinds say of themselves:
//  - a band (causal, window, documents, their intersections, ...): its two ends each cross at most m + n tiles; beyond
//    a thousand tiles a side they are followed tile by tile instead, which is exact;
//  - shared_prefix, block_diffusion: their three and five ends likewise; intervals: the bounds they were bound with;
//  - tree: its ends, and half the square of its nodes; blocks: the tiles that edges of blocks cross; neighborhood: the
//    reach of a kernel;
//  - bits, dense, threshold, topk, stride: every tile.
// Contents of arrays on the device are not looked at: of a band the bound of its two ends, of intervals every tile.
// An expression needs at most the sum over its leaves, and never more than all tiles.
#pragma once

#include <cstdint>

#include "mask/bound_mask.h"

namespace anymask {

struct PlanCapacity {
  int64_t bit_tiles = 0, runs = 0;
};
// `tile_m`: rows of the plane in a tile, any number of them.
PlanCapacity plan_capacity(const PlaneMask& plane, int32_t tile_m, bool transposed);

// What rows of tiles cost, where it is cheap to know: a band of not too many rows, as queries.
struct BandCost {
  bool known = false;
  int64_t full_tiles = 0;  // of all rows of tiles, at least
  int64_t longest = 0;     // tiles of one row, at most
};
BandCost band_cost(const PlaneMask& plane, int32_t tile_m);

}  // namespace anymask
