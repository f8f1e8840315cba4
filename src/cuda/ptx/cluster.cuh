// Blocks of a cluster: who they are, each other's shared memory, a barrier of all. Hopper and later.
#pragma once

#include <cstdint>

#include "cuda/ptx/ld_st.cuh"

namespace anymask::ptx {

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t x = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(x));
#endif
  return x;
}
__device__ __forceinline__ uint32_t cluster_blocks() {
  uint32_t x = 1;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(x));
#endif
  return x;
}
// Stores where `to` would be in block `rank` of the cluster.
__device__ __forceinline__ void cluster_store(int32_t* to, uint32_t rank, int32_t value) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; st.shared::cluster.b32 [a], %2; }" ::"r"(shared_address(to)),
      "r"(rank), "r"(value)
      : "memory");
#endif
}
// All threads of all blocks; what they stored before is seen after it.
__device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

}  // namespace anymask::ptx
