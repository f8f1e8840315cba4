// The cache behind TileSource::make: what a mask comes to at given lengths. Bounded in bytes, least recently used out
// first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "mask/bound_mask.h"
#include "plan/builder.h"
#include "plan/tile_plan.h"
#include "plan/tile_source.h"

namespace anymask {

// Everything a plan depends on. Arrays enter through the digest, by content; of a sequence only its lengths count.
struct PlanKey {
  Digest digest{};
  int64_t h_q = 0, h_kv = 0;
  PlanRequest request;
  std::vector<std::pair<int64_t, int64_t>> lengths;  // (s_q, s_kv) of each sequence
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};
PlanKey plan_key(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv,
                 const PlanRequest& request);

// One of the two is null. Bands refer to arrays that they own.
struct PlanEntry {
  std::shared_ptr<const BoundMask> bands;
  std::shared_ptr<const TilePlan> plan;
};

class PlanCache {
 public:
  explicit PlanCache(int64_t limit_bytes) : limit_(limit_bytes) {}

  std::optional<PlanEntry> find(const PlanKey& key);
  // An entry larger than the whole cache is not kept. An entry for an equal key, made meanwhile by another thread,
  // stays.
  void insert(PlanKey key, PlanEntry entry);
  PlanCacheStats stats() const;
  void set_limit(int64_t bytes);

 private:
  struct Hash {
    size_t operator()(const PlanKey& key) const;
  };
  struct Node {
    PlanKey key;
    PlanEntry entry;
    int64_t bytes;
  };
  void shrink_to(int64_t bytes);

  mutable std::mutex mutex_;
  std::list<Node> nodes_;  // most recently used first
  std::unordered_map<PlanKey, std::list<Node>::iterator, Hash> index_;
  int64_t limit_, bytes_ = 0, hits_ = 0, misses_ = 0;
};

PlanCache& plan_cache();  // the process's own

}  // namespace anymask
