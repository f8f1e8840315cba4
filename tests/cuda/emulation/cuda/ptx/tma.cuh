// Stands in for src/cuda/ptx/tma.cuh: boxes of a tensor, in the 128-byte swizzle, elements out of bounds as zeros.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

#include "cuda/emulation/tensor_map.h"
#include "cuda/ptx/ld_st.cuh"

namespace anymask::ptx {

// Coordinates, innermost first.
struct Box {
  int32_t c0, c1, c2, c3, c4;
};

inline void tma_load(void* destination, const CUtensorMap& map, uint64_t& barrier, const Box& at) {
  const emulation::TensorMap tensor = emulation::TensorMap::from(map);
  const uint32_t to = shared_address(destination);
  emulation::start_copy([=, &barrier] {
    uint32_t bytes = 0;
    for (uint32_t token = 0; token < tensor.box[2]; ++token) {
      for (uint32_t head = 0; head < tensor.box[1]; ++head) {
        uint16_t row[64];
        tensor.read({at.c0, int64_t{at.c1} + head, int64_t{at.c2} + token, at.c3, at.c4}, tensor.box[0], row);
        for (uint32_t e = 0; e < tensor.box[0]; e += 8, bytes += 16)
          std::memcpy(emulation::shared_pointer(emulation::swizzle_128(to + bytes), 16), row + e, 16);
      }
    }
    emulation::mbarrier_complete(&barrier, bytes);
  });
}

inline void tma_load(void* destination, const CUtensorMap& map, uint64_t& barrier, const Box& at, uint64_t) {
  tma_load(destination, map, barrier, at);
}
inline void prefetch_map(const CUtensorMap&) {}

inline void bulk_load(void* destination, const void* source, uint32_t bytes, uint64_t& barrier) {
  const uint32_t to = shared_address(destination);
  if (to % 16 != 0 || reinterpret_cast<uintptr_t>(source) % 16 != 0 || bytes % 16 != 0)
    throw emulation::Fault("bulk_load: addresses and size must be multiples of 16");
  emulation::start_copy([=, &barrier] {
    std::memcpy(emulation::shared_pointer(to, bytes), source, bytes);
    emulation::mbarrier_complete(&barrier, bytes);
  });
}

}  // namespace anymask::ptx
