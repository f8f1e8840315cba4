// What CUDA's compiler knows without a header, for a C++ compiler: indices, functions of a warp, atomics, intrinsics.
// To be included before any kernel. CUDA's own headers make __device__ and its kin vanish elsewhere.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/emulation/emulator.h"

#undef __launch_bounds__
#define __launch_bounds__(...)

// Of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 gridDim, blockDim;

using std::max;
using std::min;

namespace anymask::emulation {

// One value a lane in, one out: out[l] = in[source(l, argument of l)].
struct Shuffle {
  uint32_t value;
  int argument;
  uint32_t result;
};
template <bool exclusive_or>
inline void shuffle_lanes(Lanes lanes) {
  for (int l = 0; l < 32; ++l) {
    auto* const mine = static_cast<Shuffle*>(lanes[l]);
    const int source = exclusive_or ? l ^ mine->argument : mine->argument;
    mine->result = static_cast<const Shuffle*>(lanes[source & 31])->value;
  }
}
template <bool exclusive_or, class T>
T shuffle(const char* name, T value, int argument) {
  static_assert(sizeof(T) == 4);
  Shuffle s{0, argument, 0};
  std::memcpy(&s.value, &value, 4);
  collective(name, &s, &shuffle_lanes<exclusive_or>);
  std::memcpy(&value, &s.result, 4);
  return value;
}

}  // namespace anymask::emulation

// The whole warp takes part in each of them: masks are full.
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return anymask::emulation::shuffle<false>("__shfl_sync", value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return anymask::emulation::shuffle<true>("__shfl_xor_sync", value, lanes);
}
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= (static_cast<uint32_t>(both >> (8 * (selector >> (4 * i) & 7))) & 0xffu) << (8 * i);
  return result;
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  struct Ballot {
    bool vote;
    unsigned all;
  } ballot{vote, 0};
  anymask::emulation::collective("a vote", &ballot, [](anymask::emulation::Lanes lanes) {
    unsigned all = 0;
    for (unsigned l = 0; l < 32; ++l) all |= unsigned{static_cast<const Ballot*>(lanes[l])->vote} << l;
    for (void* const lane : lanes) static_cast<Ballot*>(lane)->all = all;
  });
  return ballot.all;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == 0xffffffffu; }
inline int __reduce_add_sync(unsigned, int value) {
  struct Sum {
    int value, all;
  } sum{value, 0};
  anymask::emulation::collective("__reduce_add_sync", &sum, [](anymask::emulation::Lanes lanes) {
    int all = 0;
    for (void* const lane : lanes) all += static_cast<const Sum*>(lane)->value;
    for (void* const lane : lanes) static_cast<Sum*>(lane)->all = all;
  });
  return sum.all;
}
// Of the lane so many before; a lane's own where there is none.
template <class T>
T __shfl_up_sync(unsigned, T value, int lanes) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return anymask::emulation::shuffle<false>("__shfl_up_sync", value, lane < lanes ? lane : lane - lanes);
}
template <bool maximum>
int reduce_lanes(const char* name, int value) {
  anymask::emulation::collective(name, &value, [](anymask::emulation::Lanes lanes) {
    int all = *static_cast<const int*>(lanes[0]);
    for (void* const lane : lanes) {
      const int mine = *static_cast<const int*>(lane);
      all = maximum ? std::max(all, mine) : std::min(all, mine);
    }
    for (void* const lane : lanes) *static_cast<int*>(lane) = all;
  });
  return value;
}
inline int __reduce_min_sync(unsigned, int value) { return reduce_lanes<false>("__reduce_min_sync", value); }
inline int __reduce_max_sync(unsigned, int value) { return reduce_lanes<true>("__reduce_max_sync", value); }
inline void __syncwarp() {
  anymask::emulation::collective("__syncwarp", nullptr, [](anymask::emulation::Lanes) {});
}
inline void __syncthreads() { anymask::emulation::block_barrier(0, static_cast<int>(blockDim.x), true); }

// Threads are switched only where they wait.
inline int atomicAdd(int* to, int value) {
  const int before = *to;
  *to += value;
  return before;
}
inline uint32_t atomicOr(uint32_t* to, uint32_t bits) {
  const uint32_t before = *to;
  *to |= bits;
  return before;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __logf(float x) { return std::log(x); }
inline float __uint_as_float(unsigned x) {
  float y;
  std::memcpy(&y, &x, 4);
  return y;
}
