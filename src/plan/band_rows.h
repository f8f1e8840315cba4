// Rows of tiles of a band mask, from two integers a row: no plan, no descent. Rows of a band keep one interval each,
// whose ends never move backward; so do its columns, and the transposed orientation is the same computation on those.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/grid.h"
#include "plan/tile_plan.h"

namespace anymask {

// One computed row. Its vectors keep their memory from row to row.
struct BandRow {
  std::vector<Run> runs;
  std::vector<uint64_t> bits;  // tiles of tile_m rows of tile_n / 64 words, numbered as the runs need them
  int64_t full_tiles = 0, partial_tiles = 0;

  struct Line {  // a row of pairs that keeps something: columns [begin, end)
    int32_t row;
    int64_t begin, end;
  };
  std::vector<Line> lines;
  std::vector<Interval> intervals;  // one for each row of pairs
};

// plane.is_band() must hold, and grid be the plane's own. Lists the same tiles with the same kinds and bits as a plan.
void band_row(const PlaneMask& plane, const Grid& grid, int32_t m_block, BandRow& out);

// Tiles [first, last) between the first and the last tile any pair of the row of tiles touches. A row of tiles whose
// first and last row of pairs differ may have gaps in it.
std::pair<int32_t, int32_t> band_span(const PlaneMask& plane, const Grid& grid, int32_t m_block);

}  // namespace anymask
