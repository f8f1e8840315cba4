// Pictures of a rule given as a function, pair by pair: what the renderers are tested with, free of the library's masks
// and plans.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "cli/picture/picture.h"

namespace anymask::cli {

struct SyntheticGrid {
  int64_t cell_q = 1, cell_kv = 1, tile_q = 0, tile_kv = 0;
};

inline MaskPicture synthetic(std::string title, int64_t s_q, int64_t s_kv, const SyntheticGrid& grid,
                             const std::function<bool(int64_t, int64_t)>& keep) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  // Kept pairs of a rectangle clipped to the plane, and its pairs.
  const auto count = [&](int64_t q0, int64_t q1, int64_t kv0, int64_t kv1) {
    std::pair<int64_t, int64_t> kept_of{0, 0};
    for (int64_t q = q0; q < std::min(q1, s_q); ++q) {
      for (int64_t kv = kv0; kv < std::min(kv1, s_kv); ++kv) kept_of.first += keep(q, kv), ++kept_of.second;
    }
    return kept_of;
  };
  MaskPicture p;
  p.title = std::move(title);
  p.s_q = s_q, p.s_kv = s_kv, p.pairs = s_q * s_kv;
  p.cell_q = grid.cell_q, p.cell_kv = grid.cell_kv, p.tile_q = grid.tile_q, p.tile_kv = grid.tile_kv;
  if (p.pairs == 0) return p;
  p.rows = ceil_div(s_q, p.cell_q), p.cols = ceil_div(s_kv, p.cell_kv);
  const int64_t tile_q = p.tile_q ? p.tile_q : s_q, tile_kv = p.tile_kv ? p.tile_kv : s_kv,
                tile_cols = ceil_div(s_kv, tile_kv);
  std::vector<TileKind> tiles;
  for (int64_t m = 0; m < ceil_div(s_q, tile_q); ++m) {
    for (int64_t n = 0; n < tile_cols; ++n) {
      const auto [kept, pairs] = count(m * tile_q, (m + 1) * tile_q, n * tile_kv, (n + 1) * tile_kv);
      tiles.push_back(kept == 0 ? TileKind::empty : kept == pairs ? TileKind::full : TileKind::partial);
      ++(kept == 0 ? p.empty_tiles : kept == pairs ? p.full_tiles : p.partial_tiles);
      p.kept += kept;
    }
  }
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.cols; ++j) {
      const int64_t q0 = i * p.cell_q, q1 = std::min(q0 + p.cell_q, s_q), kv0 = j * p.cell_kv,
                    kv1 = std::min(kv0 + p.cell_kv, s_kv);
      const auto [kept, pairs] = count(q0, q1, kv0, kv1);
      p.share.push_back(static_cast<float>(static_cast<double>(kept) / static_cast<double>(pairs)));
      TileKind kind = tiles[static_cast<size_t>(q0 / tile_q * tile_cols + kv0 / tile_kv)];
      for (int64_t m = q0 / tile_q; m <= (q1 - 1) / tile_q; ++m) {
        for (int64_t n = kv0 / tile_kv; n <= (kv1 - 1) / tile_kv; ++n) {
          const TileKind other = tiles[static_cast<size_t>(m * tile_cols + n)];
          if (other == kind || kind == TileKind::partial) continue;
          kind = other == TileKind::partial ? other : TileKind::mixed;
        }
      }
      p.tile.push_back(kind);
    }
  }
  return p;
}

}  // namespace anymask::cli
