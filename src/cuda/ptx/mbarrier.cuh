// mbarrier: the shared-memory barrier that asynchronous copies complete on. Names follow the PTX ISA.
#pragma once

#include <cstdint>

#include "cuda/ptx/ld_st.cuh"

namespace anymask::ptx {

__device__ __forceinline__ void mbarrier_init(uint64_t& barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals));
}
// After the last init, before anyone else touches a barrier; then a block barrier.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// Arrives, and adds bytes the current phase waits for: before or after the copies are issued, once a phase. The bytes
// of a clipped box count whole.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t& barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
// Returns when the phase of that parity has completed. A fresh barrier has completed the phase of parity 1.
__device__ __forceinline__ void mbarrier_wait(uint64_t& barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished_%=;\n"
      "bra wait_%=;\n"
      "finished_%=:\n"
      "}\n" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace anymask::ptx
