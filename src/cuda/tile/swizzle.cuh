// Where a 16-byte chunk of a tile row lies in shared memory, so that eight rows at one chunk meet eight bank groups.
//
// A tile is rows of `cols` 16-bit elements without gaps; its base is a multiple of 128 bytes. Rows of 128 bytes and
// their multiples start in the same bank: the chunk is XORed with the row. Rows of 64 and 192 bytes alternate between
// two halves, rows of 32 bytes between four quarters: fewer bits need mixing.
#pragma once

#include <cstdint>

namespace anymask {

template <int cols>
struct Swizzle {
  static_assert(cols == 16 || cols % 32 == 0, "a row holds 2 chunks, or a multiple of 4");
  static constexpr int row_bytes = cols * 2;
  static constexpr int chunks = cols / 8;
  static constexpr int mask = cols % 64 == 0 ? 7 : cols % 32 == 0 ? 3 : 1;
  static constexpr int shift = cols % 64 == 0 ? 0 : cols % 32 == 0 ? 1 : 2;

  // What the chunks of a row are XORed with: the same for rows that are 8 apart.
  static __device__ __forceinline__ int twist(int row) { return (row >> shift) & mask; }
  static __device__ __forceinline__ uint32_t offset(int row, int chunk) {
    return static_cast<uint32_t>(row * row_bytes + (chunk ^ twist(row)) * 16);
  }
  // The address of chunk `by` further than `address`, of a chunk 0 or, for even `by`, chunk 1: with a constant `by` one
  // exclusive or, and a constant that folds into the access.
  static __device__ __forceinline__ uint32_t chunk(uint32_t address, int by) {
    return (address ^ static_cast<uint32_t>((by & mask) * 16)) + static_cast<uint32_t>((by & ~mask) * 16);
  }
};

}  // namespace anymask
