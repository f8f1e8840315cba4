// From a bound mask to a TilePlan: rectangles classified EMPTY or FULL are done, mixed ones are halved down to tiles;
// a tile still mixed is evaluated word by word and classified again, exactly. Equal bit tiles are shared.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mask/bound_mask.h"
#include "plan/tile_plan.h"

namespace anymask {

struct PlanRequest {
  int32_t tile_m = 96, tile_n = 64;
  bool transposed = false;
  float split_cost = 0;   // rows costlier than this many tiles are split into equal pieces; 0: never
};

TilePlan build_plan(const BoundMask& mask, const PlanRequest& request);

// Pairs kept by one plane, exactly, without storing a plan.
int64_t count_kept(const PlaneMask& plane);

// The picture of a plane: kept share of each of rows x cols cells (cell (i, j) covers rows [i*s_q/rows, (i+1)*s_q/rows), keys alike).
std::vector<float> coverage(const PlaneMask& plane, int64_t rows, int64_t cols);

// The same for a rectangle of the plane, element by element: 1 kept, 0 not; row-major.
std::vector<uint8_t> dense(const PlaneMask& plane, const Rect& rect);

}  // namespace anymask
