// The pool of bit tiles: each distinct tile once, numbered in the order of first arrival.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace anymask {

class BitPool {
 public:
  explicit BitPool(size_t words_per_tile);

  // The number of the tile equal to tile[0, words_per_tile): an earlier one, or the next. Throws beyond 2^31 - 1 tiles.
  int32_t intern(const uint64_t* tile);
  int32_t size() const { return count_; }
  const uint64_t* tile(int32_t index) const;
  // Leaves the pool empty, and keeps its memory for the next tiles.
  void clear();
  // All tiles, one after the other. Leaves the pool empty. Chunks are freed as they are copied, so the peak is little
  // more than the pool itself.
  std::vector<uint64_t> take();

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t index = -1;  // -1: free
  };
  void grow();

  size_t words_per_tile_;
  int chunk_shift_ = 0;                              // tiles a chunk, as a power of two
  std::vector<std::unique_ptr<uint64_t[]>> chunks_;  // 256 KiB each, or one tile
  int32_t count_ = 0;
  std::vector<Slot> slots_;  // open addressing, at most half full
};

}  // namespace anymask
