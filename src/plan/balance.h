// From costs to work: rows of tiles in the order they should be started, long ones cut. Pure functions, the same for
// rows of a plan and for rows computed on the spot.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/tile_plan.h"

namespace anymask {

struct RowCost {
  int32_t plane, m_block;
  int64_t tiles;  // full and partial tiles alike: what a kernel pays for a cut tile is a few percent more
};

// Items longest first; equal costs keep the order of `rows`, and pieces of a row theirs. A row of more than split_cost
// tiles is cut into the fewest pieces of at most split_cost tiles (never fewer than one tile), near-equal: they differ
// by one tile at most. split_cost 0 cuts nothing. Runs are not filled in: see locate.
std::vector<WorkItem> balance(std::span<const RowCost> rows, float split_cost);

// Fills in run_begin .. n_end of piece item.split of item.num_splits, and its cost, from the row's runs. Pieces beyond
// the row's tiles (a cost that was an overestimate) come out without runs.
void locate(std::span<const Run> runs, WorkItem& item);

}  // namespace anymask
