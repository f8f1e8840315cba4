#include "plan/bit_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace anymask {
namespace {

constexpr size_t chunk_words = size_t{1} << 15;

uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b;
  a *= 0x9e3779b97f4a7c15u;
  return a ^ (a >> 29);
}

// Four independent lanes, so that the multiplies overlap.
uint32_t hash_of(const uint64_t* words, size_t count) {
  uint64_t lane[4] = {1, 2, 3, 4};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t j = 0; j < 4; ++j) lane[j] = mix(lane[j], words[i + j]);
  }
  for (; i < count; ++i) lane[0] = mix(lane[0], words[i]);
  return static_cast<uint32_t>(mix(mix(mix(lane[0], lane[1]), lane[2]), lane[3]) >> 32);
}

}  // namespace

BitPool::BitPool(size_t words_per_tile) : words_per_tile_(words_per_tile), slots_(64) {
  while ((words_per_tile_ << (chunk_shift_ + 1)) <= chunk_words) ++chunk_shift_;
}

const uint64_t* BitPool::tile(int32_t index) const {
  const auto i = static_cast<size_t>(index);
  const size_t in_chunk = i & ((size_t{1} << chunk_shift_) - 1);
  return chunks_[i >> chunk_shift_].get() + in_chunk * words_per_tile_;
}

int32_t BitPool::intern(const uint64_t* tile_words) {
  const uint32_t hash = hash_of(tile_words, words_per_tile_);
  const size_t bytes = words_per_tile_ * sizeof(uint64_t);
  size_t at = hash & (slots_.size() - 1);
  for (; slots_[at].index >= 0; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].hash == hash && std::memcmp(tile(slots_[at].index), tile_words, bytes) == 0) return slots_[at].index;
  }
  if (count_ == std::numeric_limits<int32_t>::max()) {
    fail_invalid(
        "plan: the mask cuts more than ", std::numeric_limits<int32_t>::max(),
        " tiles in different ways, more than 32-bit numbers hold: plan pieces of the call, or use larger tiles");
  }
  const int32_t index = count_;
  if (static_cast<size_t>(index) >> chunk_shift_ == chunks_.size()) {
    chunks_.push_back(std::make_unique_for_overwrite<uint64_t[]>(words_per_tile_ << chunk_shift_));
  }
  std::memcpy(const_cast<uint64_t*>(tile(index)), tile_words, bytes);
  slots_[at] = {hash, index};
  ++count_;
  if (static_cast<size_t>(count_) * 2 > slots_.size()) grow();
  return index;
}

void BitPool::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.index < 0) continue;
    size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].index >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

void BitPool::clear() {
  count_ = 0;
  slots_.assign(slots_.size(), Slot{});
}

std::vector<uint64_t> BitPool::take() {
  std::vector<uint64_t> all;
  size_t left = static_cast<size_t>(count_) * words_per_tile_;
  all.reserve(left);
  for (std::unique_ptr<uint64_t[]>& chunk : chunks_) {
    const size_t words = std::min(left, words_per_tile_ << chunk_shift_);
    all.insert(all.end(), chunk.get(), chunk.get() + words);
    chunk.reset();
    left -= words;
  }
  chunks_.clear();
  count_ = 0;
  slots_.assign(64, Slot{});
  return all;
}

}  // namespace anymask
