// Bytes of two registers put together.
#pragma once

#include <cstdint>

namespace anymask::ptx {

// Byte i of the result: all bits the top bit of byte n of (low, high), where n is nibble i of the selector less 8.
__device__ __forceinline__ uint32_t fill_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t filled;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(filled) : "r"(low), "r"(high), "r"(selector));
  return filled;
}

}  // namespace anymask::ptx
