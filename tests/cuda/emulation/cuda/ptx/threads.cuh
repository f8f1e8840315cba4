// Stands in for src/cuda/ptx/threads.cuh.
#pragma once

#include <cstdint>

#include "cuda/emulation/device_keywords.h"

namespace anymask::ptx {

inline void barrier_sync(int id, int threads) { emulation::block_barrier(id, threads, true); }
inline void barrier_arrive(int id, int threads) { emulation::block_barrier(id, threads, false); }

inline bool barrier_any(int id, int threads, bool condition) {
  return emulation::block_barrier(id, threads, true, condition);
}

// Registers are not counted; that the whole warp comes is.
template <int registers>
inline void registers_decrease() {
  emulation::collective("setmaxnreg", nullptr, [](emulation::Lanes) {});
}
template <int registers>
inline void registers_increase() {
  emulation::collective("setmaxnreg", nullptr, [](emulation::Lanes) {});
}

inline int thread_index() { return static_cast<int>(threadIdx.x); }

template <class Int>
inline Int uniform(Int x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

}  // namespace anymask::ptx
