// Bulk copies (TMA), global to shared memory: boxes of a tensor through its map, and plain bytes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/ptx/ld_st.cuh"

namespace anymask::ptx {

// Coordinates, innermost first.
struct Box {
  int32_t c0, c1, c2, c3, c4;
};

// Elements out of bounds arrive as zeros; the barrier still receives the bytes of the whole box.
__device__ __forceinline__ void tma_load(void* destination, const CUtensorMap& map, uint64_t& barrier, const Box& at) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
      "[%2];" ::"r"(shared_address(destination)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(&barrier)), "r"(at.c0), "r"(at.c1), "r"(at.c2),
      "r"(at.c3), "r"(at.c4)
      : "memory");
}
// The same with a policy for the second-level cache.
__device__ __forceinline__ void tma_load(void* destination, const CUtensorMap& map, uint64_t& barrier, const Box& at,
                                         uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, "
      "%5, %6, %7}], [%2], %8;" ::"r"(shared_address(destination)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(&barrier)), "r"(at.c0), "r"(at.c1), "r"(at.c2),
      "r"(at.c3), "r"(at.c4), "l"(policy)
      : "memory");
}
// Brings a map to where loads look it up.
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(&map)) : "memory");
}
// Plain bytes; addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_load(void* destination, const void* source, uint32_t bytes, uint64_t& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(destination)),
               "l"(source), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

}  // namespace anymask::ptx
