// What a kernel walks: for each row of tiles its runs, and the bits of a PARTIAL tile. Two ways to have them:
// from a TilePlan in memory, or, where each row keeps one interval, computed on the spot from two integers a row (no
// plan, no memory). Both list the same tiles, of the same kind, with the same bits; only the numbering of bit tiles
// differs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mask/bound_mask.h"
#include "plan/band_rows.h"
#include "plan/builder.h"
#include "plan/grid.h"
#include "plan/tile_plan.h"

namespace anymask {

// One row of tiles. Reused by a thread from row to row (then nothing is allocated once it has seen its largest row);
// views the plan's memory or owns what was computed, and stays valid until its next use or the end of the source.
class TileRow {
 public:
  std::span<const Run> runs() const { return runs_; }
  // Bits of tile n_block of `run` (which must be PARTIAL): tile_m rows of tile_n / 64 words.
  const uint64_t* bits(const Run& run, int32_t n_block) const {
    const auto tile =
        static_cast<size_t>(run.bits) + (run.kind == RunKind::partial ? static_cast<size_t>(n_block - run.n_begin) : 0);
    return pool_ + tile * words_per_tile_;
  }
  int64_t full_tiles = 0, partial_tiles = 0;

 private:
  friend class TileSource;
  std::span<const Run> runs_;
  const uint64_t* pool_ = nullptr;
  size_t words_per_tile_ = 0;
  BandRow band_;
};

class TileSource {
 public:
  // Chooses: band form where every plane has it, else a plan; either from the cache when the mask's digest and the
  // lengths are known there. Masks whose arrays are borrowed must keep them alive as long as the source.
  static TileSource make(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv,
                         const PlanRequest& request, const Workers& workers = {});

  bool planned() const { return plan_ != nullptr; }
  const TilePlan* plan() const { return plan_.get(); }  // null for the band form
  int32_t tile_m() const { return request_.tile_m; }
  int32_t tile_n() const { return request_.tile_n; }

  // Planes are numbered by the source itself: ask it which one a sequence and head use.
  int32_t plane(int64_t sequence, int64_t h_q) const {
    return plan_ ? plan_->plane(sequence, h_q) : bands_->plane(sequence, h_q);
  }
  int32_t planes() const;
  int64_t rows(int32_t plane) const;  // pairs along m and n: s_q and s_kv, exchanged when transposed
  int64_t cols(int32_t plane) const;
  int32_t m_blocks(int32_t plane) const;
  int32_t n_blocks(int32_t plane) const;
  void row(int32_t plane, int32_t m_block, TileRow& out) const;
  // Tiles to visit in a row of tiles: what scheduling weighs. No bits are evaluated: a plan sums its runs, the band
  // form looks at the first and last row alone and counts gaps between intervals too.
  float cost(int32_t plane, int32_t m_block) const;
  // Range of n tiles that covers all tiles the plane lists, within [0, n_blocks]: what is worth packing.
  std::pair<int32_t, int32_t> touched(int32_t plane) const;

 private:
  Grid grid(int32_t plane) const;

  std::shared_ptr<const BoundMask> bands_;  // the band form; null when planned
  std::shared_ptr<const TilePlan> plan_;
  PlanRequest request_;
};

// The cache behind make(): keyed by the mask's digest, the lengths and the request; bounded in bytes (256 MiB unless
// set), least recently used out first; safe to use from many threads. The digest is over the contents of arrays,
// borrowed ones too, so changed contents never give a stale plan, and what is kept refers to no borrowed memory.
struct PlanCacheStats {
  int64_t entries, bytes, hits, misses, limit_bytes;
};
PlanCacheStats plan_cache_stats();
void set_plan_cache_limit(int64_t bytes);  // 0 empties and disables it

}  // namespace anymask
