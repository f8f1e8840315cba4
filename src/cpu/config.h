// What the CPU forward decides from shapes alone, in one place and printable. Never from the number of threads: results
// must not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "core/problem.h"
#include "plan/builder.h"

namespace anymask {

// Rows of a block: as many as the tiles of most maps of blocks have rows, so that these cut no tile of ours. Register
// tiles of 6 or 12 rows leave 4, which have a tile of their own.
inline constexpr int64_t max_block_rows = 64;
inline constexpr int64_t padded_block_rows = 72;  // in whole register tiles of either kind
inline constexpr int64_t tile_keys = 64;
// Tiles whose scores are held at a time: 256 keys. The values of a panel (16 KB with AVX2) and the probabilities of a
// row group (6 KB) then share a 32 KB first-level cache.
inline constexpr int64_t chunk_tiles = 4;
// Rows of scores are this far apart: not a power of two, so that rows do not fall into the same cache sets.
inline constexpr int64_t score_stride = chunk_tiles * tile_keys + 16;

inline constexpr double log2_e = 1.4426950408889634, ln_2 = 0.6931471805599453;

struct ForwardConfig {
  int32_t tile_m = 64, tile_n = 64;
  bool bf16_dot = false;   // products of bf16 pairs; otherwise 16-bit inputs are widened while packing
  int64_t blocks = 0;      // row blocks over all sequences and heads
  int64_t max_splits = 1;  // pieces a row block's tiles may be cut into
  int64_t min_split_tiles = 16;

  // Query heads of a group that share one block's rows: few tokens would leave register tiles empty, and K and V be
  // read again for each head. `same_plane`: the heads of a group keep the same keys.
  static int64_t folded_heads(int64_t group, int64_t s_q, bool same_plane) {
    if (!same_plane || s_q <= 0) return 1;
    const int64_t fit = max_block_rows / s_q;
    return fit < 1 ? 1 : fit < group ? fit : group;
  }
  // Given the number of row blocks (folding needs the mask's planes).
  void choose_splits(int64_t num_blocks);
  PlanRequest request() const { return {.tile_m = tile_m, .tile_n = tile_n, .transposed = false, .split_cost = 0}; }
  std::vector<Fact> facts() const;
};

// Whether K and V are packed once for a kv head (by tasks of their own) or by each block for itself.
inline bool packs_shared(int64_t blocks_of_kv_head) { return blocks_of_kv_head >= 4; }

ForwardConfig choose_forward(const AttentionProblem& problem);

}  // namespace anymask
