// Warps among themselves: named barriers, registers handed over between warpgroups, values all lanes share.
#pragma once

#include <cstdint>

namespace anymask::ptx {

// Ids 1..15; `threads` counts everyone who syncs or arrives.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
#ifdef ANYMASK_RACECHECK  // compute-sanitizer's racecheck does not follow arrivals: whoever arrives waits
                          // (docs/cuda.md)
  barrier_sync(id, threads);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// barrier_sync by all of `threads`; whether the condition holds for any of them.
__device__ __forceinline__ bool barrier_any(int id, int threads, bool condition) {
  int any;
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.b32 q, %1, 0;\nbar.red.or.pred p, %2, %3, q;\nselp.b32 %0, 1, 0, p;\n}\n"
               : "=r"(any)
               : "r"(static_cast<int>(condition)), "r"(id), "r"(threads)
               : "memory");
  return any != 0;
}

// Registers a thread, by every warp of the warpgroup. `increase` blocks until the others have given theirs up: a sum
// beyond the launch's own pool hangs.
template <int registers>
__device__ __forceinline__ void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// threadIdx.x, read where it is asked for and not kept in a register.
__device__ __forceinline__ int thread_index() {
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

// Tells the compiler that a value is the same in all lanes, so that it lives in uniform registers.
template <class Int>
__device__ __forceinline__ Int uniform(Int x) {
  return __shfl_sync(0xffffffffu, x, 0);
}

}  // namespace anymask::ptx
