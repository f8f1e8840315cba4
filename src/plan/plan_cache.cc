#include "plan/plan_cache.h"

#include <algorithm>
#include <utility>

namespace anymask {
namespace {

// What an entry occupies: the plan's own count, or planes and their leaves, at an estimate; and the key, held twice.
int64_t bytes_of(const PlanKey& key, const PlanEntry& entry) {
  constexpr size_t bytes_a_plane = 1024;
  size_t bytes = 512 + 2 * key.lengths.size() * sizeof(key.lengths[0]);
  if (entry.bands) bytes += entry.bands->planes.size() * bytes_a_plane + entry.bands->plane_of.size() * sizeof(int32_t);
  if (entry.plan) bytes += static_cast<size_t>(entry.plan->stats.bytes);
  return static_cast<int64_t>(bytes);
}

}  // namespace

PlanKey plan_key(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv,
                 const PlanRequest& request) {
  PlanKey key{mask.digest(), h_q, h_kv, request, {}};
  key.lengths.reserve(sequences.size());
  for (const Sequence& sequence : sequences) key.lengths.emplace_back(sequence.s_q, sequence.s_kv);
  return key;
}

size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  uint64_t hash = key.digest[0];
  const auto add = [&hash](int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u ^ hash >> 31;
  };
  add(key.h_q);
  add(key.request.tile_m);
  add(key.request.tile_n * 2 + key.request.transposed);
  for (const auto& [s_q, s_kv] : key.lengths) {
    add(s_q);
    add(s_kv);
  }
  return static_cast<size_t>(hash);
}

std::optional<PlanEntry> PlanCache::find(const PlanKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  nodes_.splice(nodes_.begin(), nodes_, found->second);
  return found->second->entry;
}

void PlanCache::insert(PlanKey key, PlanEntry entry) {
  const int64_t bytes = bytes_of(key, entry);
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ || index_.contains(key)) return;
  shrink_to(limit_ - bytes);
  nodes_.push_front({key, std::move(entry), bytes});
  index_.emplace(std::move(key), nodes_.begin());
  bytes_ += bytes;
}

PlanCacheStats PlanCache::stats() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int64_t>(nodes_.size()), bytes_, hits_, misses_, limit_};
}

void PlanCache::set_limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = std::max<int64_t>(bytes, 0);
  shrink_to(limit_);
}

void PlanCache::shrink_to(int64_t bytes) {
  while (bytes_ > bytes) {
    bytes_ -= nodes_.back().bytes;
    index_.erase(nodes_.back().key);
    nodes_.pop_back();
  }
}

PlanCache& plan_cache() {
  static PlanCache cache(int64_t{256} << 20);
  return cache;
}

PlanCacheStats plan_cache_stats() { return plan_cache().stats(); }
void set_plan_cache_limit(int64_t bytes) { plan_cache().set_limit(bytes); }

}  // namespace anymask
