// The descent by rectangles: EMPTY and FULL rectangles are done, mixed ones are halved along their longer side, in
// tiles. So an interval-like mask costs its boundary, not its area.
#pragma once

#include <bit>

#include "plan/grid.h"

namespace anymask {

// Calls full(TileRect) for rectangles kept whole and mixed(TileRect) for single tiles not decided yet. Within each row
// of tiles the calls come in ascending order of n. grid.rect(TileRect) gives the pairs of tiles.
template <class AnyGrid, class Full, class Mixed>
void descend(const PlaneMask& plane, const AnyGrid& grid, const TileRect& t, Full&& full, Mixed&& mixed) {
  const Kept kept = plane.classify(grid.rect(t));
  if (kept == Kept::empty) return;
  if (kept == Kept::full) {
    full(t);
    return;
  }
  const auto m = static_cast<uint32_t>(t.m_end - t.m_begin), n = static_cast<uint32_t>(t.n_end - t.n_begin);
  if (m == 1 && n == 1) {
    mixed(t);
    return;
  }
  // Halves of a power of two, so that rectangles stay aligned to the blocks that masks are often made of.
  TileRect first = t, second = t;
  if (n >= m) {
    first.n_end = second.n_begin = t.n_begin + static_cast<int32_t>(std::bit_ceil(n) / 2);
  } else {
    first.m_end = second.m_begin = t.m_begin + static_cast<int32_t>(std::bit_ceil(m) / 2);
  }
  descend(plane, grid, first, full, mixed);
  descend(plane, grid, second, full, mixed);
}

}  // namespace anymask
