// Folded tiles: 2^log2 query heads that share a kv head and a plane stand in the rows of one tile, token by token, so
// that few tokens fill it and their K and V are read once.
//
// A tile of tile_m rows has tokens(tile_m) tokens. Row r of it is token token(r), counted from the tile's first, of
// query head first_head(item head) + head(r). Every kernel that reads or writes rows of tiles asks here.
#pragma once

#include <cstdint>

#include "mask/leaf.h"

namespace anymask {

struct Fold {
  int32_t log2 = 0;

  ANYMASK_HOST_DEVICE int32_t heads() const { return 1 << log2; }
  ANYMASK_HOST_DEVICE int32_t tokens(int32_t rows) const { return rows >> log2; }
  ANYMASK_HOST_DEVICE int32_t token(int32_t row) const { return row >> log2; }
  ANYMASK_HOST_DEVICE int32_t head(int32_t row) const { return row & (heads() - 1); }
  ANYMASK_HOST_DEVICE int32_t first_head(int32_t item_head) const { return item_head << log2; }
};

// The fold of `heads` query heads, a power of two.
constexpr Fold fold_of(int32_t heads) {
  Fold fold;
  while (1 << fold.log2 < heads) ++fold.log2;
  return fold;
}

}  // namespace anymask
