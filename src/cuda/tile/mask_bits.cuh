// Which scores of an mma accumulator count, as one word a row: bit 2 g + j of a lane is column 8 g + 2 (lane % 4) + j,
// the order in which the plan stores bits (cuda/attention_params.h).
#pragma once

#include <cstdint>

namespace anymask {

// Columns below `limit`, up to 64 of them, as the lane's word.
__device__ __forceinline__ uint32_t columns_below(int limit, int lane) {
  const int mine = limit - 2 * (lane % 4);
  const int kept = min(max(2 * (mine >> 3) + min(mine & 7, 2), 0), 16);
  return (1u << kept) - 1;
}

// Bits 8 g + 2 c + j of 32 columns, g < 4 and j < 2, as bits 2 g + j.
__device__ __forceinline__ uint32_t quarter(uint32_t columns, int c) {
  const uint32_t x = (columns >> (2 * c)) & 0x03030303u;
  return (x | x >> 6 | x >> 12 | x >> 18) & 0xffu;
}

// And back: bits 2 g + j of four groups as 32 columns, the others 0.
__device__ __forceinline__ uint32_t columns(uint32_t quarter, int c) {
  uint32_t x = quarter & 0xffu;
  x = (x | x << 12) & 0x000f000fu;
  return ((x | x << 6) & 0x03030303u) << (2 * c);
}

// Columns [begin, end) likewise.
__device__ __forceinline__ uint32_t columns_between(int begin, int end, int lane) {
  return columns_below(end, lane) & ~columns_below(begin, lane);
}

// S = -inf where the bit is 0; before the maximum, so that a dropped score does not raise it. The bits of one row are
// tested in ascending order: compilers turn that into predicates, seven a register move.
template <int n_tiles>
__device__ __forceinline__ void apply_mask(float (&s)[n_tiles][4], int half, uint32_t word) {
#pragma unroll
  for (int g = 0; g < n_tiles; ++g) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float& x = s[g][2 * half + j];
      x = word & (1u << (2 * g + j)) ? x : -INFINITY;
    }
  }
}

}  // namespace anymask
