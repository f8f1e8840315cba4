// A plane cut into tiles, in either orientation: m and n to queries and keys.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mask/bound_mask.h"
#include "plan/builder.h"

namespace anymask {

// Tiles [m_begin, m_end) x [n_begin, n_end).
struct TileRect {
  int32_t m_begin, m_end, n_begin, n_end;
};

struct Grid {
  int64_t rows = 0, cols = 0;  // pairs along m and n
  int32_t tile_m = 0, tile_n = 0;
  int32_t m_blocks = 0, n_blocks = 0;
  bool transposed = false;

  int64_t row_begin(int32_t m_block) const { return int64_t{m_block} * tile_m; }
  int64_t row_end(int32_t m_block_end) const { return std::min(int64_t{m_block_end} * tile_m, rows); }
  int64_t col_begin(int32_t n_block) const { return int64_t{n_block} * tile_n; }
  int64_t col_end(int32_t n_block_end) const { return std::min(int64_t{n_block_end} * tile_n, cols); }

  int64_t pairs(const TileRect& t) const {
    return (row_end(t.m_end) - row_begin(t.m_begin)) * (col_end(t.n_end) - col_begin(t.n_begin));
  }
  // The pairs of these tiles, clipped to the plane.
  Rect rect(const TileRect& t) const {
    const int64_t m0 = row_begin(t.m_begin), m1 = row_end(t.m_end), n0 = col_begin(t.n_begin), n1 = col_end(t.n_end);
    return transposed ? Rect{n0, n1, m0, m1} : Rect{m0, m1, n0, n1};
  }
};

// Throws where the tile is out of range or the plane has more tiles than 32-bit indices, or more pairs than 64-bit
// counts.
Grid make_grid(const PlaneMask& plane, const PlanRequest& request);

}  // namespace anymask
