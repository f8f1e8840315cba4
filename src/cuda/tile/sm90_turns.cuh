// Three warpgroups of a block issue their products one after the other, a tile each, and pass the turn on when theirs
// are done: left to themselves all three multiply, and then all three take exponentials, at the same time.
//
// Named barriers: the one of the next warpgroup gets 128 arrivals with a turn, and 128 who wait for it. Every warpgroup
// takes and passes a turn for every tile, whatever it keeps of it.
#pragma once

#include "cuda/ptx/threads.cuh"

namespace anymask::sm90 {

template <int kWarpgroups>
struct Turns {
  static constexpr bool kTaken = kWarpgroups == 3;  // two overlap better without
  bool opens = true;                                // the first turn of all is the first warpgroup's, from nobody

  __device__ __forceinline__ void take(int warpgroup) {
    if constexpr (kTaken) {
      if (!opens || warpgroup > 0) ptx::barrier_sync(barrier(warpgroup), 256);
      opens = false;
    }
  }
  __device__ __forceinline__ void pass(int warpgroup) const {
    if constexpr (kTaken) ptx::barrier_arrive(barrier(warpgroup == kWarpgroups - 1 ? 0 : warpgroup + 1), 256);
  }
  // After the last tile: the first warpgroup takes the turn that the last one passed on.
  __device__ __forceinline__ void close(int warpgroup) {
    if (kTaken && warpgroup == 0) take(warpgroup);
  }

 private:
  __device__ __forceinline__ static int barrier(int warpgroup) { return 1 + warpgroup; }
};

}  // namespace anymask::sm90
