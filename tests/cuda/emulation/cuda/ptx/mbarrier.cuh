// Stands in for src/cuda/ptx/mbarrier.cuh.
#pragma once

#include <cstdint>

#include "cuda/ptx/ld_st.cuh"

namespace anymask::ptx {

inline void mbarrier_init(uint64_t& barrier, uint32_t arrivals) {
  emulation::mbarrier_init(&barrier, static_cast<int>(arrivals));
}
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive(uint64_t& barrier) { emulation::mbarrier_arrive(&barrier, 0); }
inline void mbarrier_arrive_expect(uint64_t& barrier, uint32_t bytes) { emulation::mbarrier_arrive(&barrier, bytes); }
inline void mbarrier_wait(uint64_t& barrier, uint32_t parity) { emulation::mbarrier_wait(&barrier, parity); }

}  // namespace anymask::ptx
