// Stands in for src/cuda/ptx/bytes.cuh.
#pragma once

#include <cstdint>

namespace anymask::ptx {

inline uint32_t fill_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t filled = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t byte = (selector >> (4 * i) & 0xf) - 8;
    filled |= (both >> (8 * byte + 7) & 1 ? 0xffu : 0u) << (8 * i);
  }
  return filled;
}

}  // namespace anymask::ptx
