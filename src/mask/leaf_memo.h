// What a mask remembers of its bound leaves, where binding one is work: topk selects. Kept with the mask, for arrays
// that cannot change; bounded, and emptied when full: what is missing is bound again, to the same.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "mask/kind.h"

namespace anymask {

// Everything a bound leaf depends on: its instruction, s_q, s_kv, the batch entry and head its arrays are read at, and
// the digest of its operand's plane.
using LeafKey = std::tuple<size_t, int64_t, int64_t, int64_t, int64_t, Digest>;

class LeafMemo {
 public:
  std::shared_ptr<const BoundLeaf> find(const LeafKey& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = leaves_.find(key);
    return found == leaves_.end() ? nullptr : found->second;
  }
  void insert(const LeafKey& key, std::shared_ptr<const BoundLeaf> leaf) {
    constexpr int64_t limit_bytes = int64_t{64} << 20, bytes_a_leaf = 1024;
    int64_t bytes = bytes_a_leaf;
    for (const int64_t held : leaf->held_bytes) bytes += held;
    const std::lock_guard lock(mutex_);
    if (bytes_ + bytes > limit_bytes) {
      leaves_.clear();
      bytes_ = 0;
    }
    if (leaves_.emplace(key, std::move(leaf)).second) bytes_ += bytes;
  }

 private:
  mutable std::mutex mutex_;
  std::map<LeafKey, std::shared_ptr<const BoundLeaf>> leaves_;
  int64_t bytes_ = 0;
};

}  // namespace anymask
