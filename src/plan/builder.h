// From a bound mask to a TilePlan: rectangles classified EMPTY or FULL are done, mixed ones are halved down to tiles;
// a tile still mixed is evaluated word by word and classified again, exactly. Equal bit tiles are shared.
#pragma once

#include <cstdint>
#include <vector>

#include "mask/bound_mask.h"
#include "plan/tile_plan.h"

namespace anymask {

struct PlanRequest {
  int32_t tile_m = 64, tile_n = 64;  // tile_m >= 1, tile_n a positive multiple of 64, at most 2^28 pairs a tile
  bool transposed = false;           // rows are keys
  float split_cost = 0;              // rows costlier than this many tiles are split into equal pieces; 0: never
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

// Time follows the boundary of interval-like masks and the area of masks of bits. Errors: a tile out of range, counts
// of tiles, bit tiles or pairs that 32-bit indices and 64-bit counters cannot hold.
// The plan is the same whoever helps, bit for bit.
TilePlan build_plan(const BoundMask& mask, const PlanRequest& request, const Workers& workers = {});

// Pairs kept by one plane, exactly, without storing a plan.
int64_t count_kept(const PlaneMask& plane);
// Pairs kept inside a rectangle of the plane; nothing for an empty one.
int64_t count_kept(const PlaneMask& plane, const Rect& rect);

// The picture of a plane: exact kept share of each of rows x cols cells, row-major. Cell (i, j) covers rows
// [i * s_q / rows, (i + 1) * s_q / rows), keys alike; where that is empty (more cells than rows) the one row it begins
// in. A plane without pairs gives zeros.
std::vector<float> coverage(const PlaneMask& plane, int64_t rows, int64_t cols);

// A rectangle of the plane, element by element: 1 kept, 0 not; row-major.
std::vector<uint8_t> dense(const PlaneMask& plane, const Rect& rect);

}  // namespace anymask
