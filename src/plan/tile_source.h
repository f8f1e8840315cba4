// What a kernel walks: for each row of tiles its runs, and the bits of a PARTIAL tile. Two ways to have them:
// from a TilePlan in memory, or, where each row keeps one interval, computed on the spot from two integers a row (no plan, no memory).
// Both give the same runs, tile by tile and bit by bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mask/bound_mask.h"
#include "plan/builder.h"
#include "plan/tile_plan.h"

namespace anymask {

// One row of tiles. Reused by a thread from row to row; views a plan's memory or owns what was computed.
class TileRow {
 public:
  std::span<const Run> runs() const { return runs_; }
  // Bits of tile n_block of `run` (which must be PARTIAL): tile_m rows of tile_n / 64 words.
  const uint64_t* bits(const Run& run, int32_t n_block) const {
    const auto tile = static_cast<size_t>(run.bits) + (run.kind == RunKind::partial ? static_cast<size_t>(n_block - run.n_begin) : 0);
    return pool_ + tile * words_per_tile_;
  }
  int64_t full_tiles = 0, partial_tiles = 0;

 private:
  friend class TileSource;
  std::span<const Run> runs_;
  const uint64_t* pool_ = nullptr;
  size_t words_per_tile_ = 0;
  std::vector<Run> own_runs_;
  std::vector<uint64_t> own_bits_;
};

class TileSource {
 public:
  // Chooses: band form where every plane has it, else a plan (from the cache when its digest and lengths are known).
  static TileSource make(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv, const PlanRequest& request);

  bool planned() const { return plan_ != nullptr; }
  const TilePlan* plan() const { return plan_.get(); }  // null for the band form
  const BoundMask& mask() const { return *mask_; }
  int32_t tile_m() const { return request_.tile_m; }
  int32_t tile_n() const { return request_.tile_n; }

  int32_t plane(int64_t sequence, int64_t h_q) const { return mask_->plane(sequence, h_q); }
  int32_t m_blocks(int32_t plane) const;
  int32_t n_blocks(int32_t plane) const;
  void row(int32_t plane, int32_t m_block, TileRow& out) const;
  // Tiles to visit in a row of tiles: what scheduling weighs. O(log) or better, no bits evaluated; may overestimate for the band form.
  float cost(int32_t plane, int32_t m_block) const;
  // Range of n tiles any row of the plane touches: what is worth packing. [0, n_blocks) at most.
  std::pair<int32_t, int32_t> touched(int32_t plane) const;

 private:
  std::shared_ptr<const BoundMask> mask_;
  std::shared_ptr<const TilePlan> plan_;
  PlanRequest request_;
};

// The cache behind make(): keyed by the mask's digest, the lengths and the request; least recently used out first.
// Plans of masks whose arrays are borrowed are looked up by content, so changed contents never give a stale plan.
struct PlanCacheStats {
  int64_t entries, bytes, hits, misses, limit_bytes;
};
PlanCacheStats plan_cache_stats();
void set_plan_cache_limit(int64_t bytes);  // 0 empties and disables it

}  // namespace anymask
