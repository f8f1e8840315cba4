// Pieces of a row of tiles merged by the kernel that computed them, 64 rows at a time: no launch follows.
//
// Counts lie in memory that may hold anything before the launch. Block 0 sets them to zero and then publishes the
// launch's number; one warp of each block waits for that while the others compute, and the last of these warps
// withdraws it, so that a replay of the same launch finds it unpublished.
//
// Who writes the last piece merges. Blocks that came before and have nothing left to do wait a moment for it and help:
// each warp takes a row at a time. They wait for blocks that may not run yet, so not for long.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/threads.cuh"
#include "cuda/tile/merge_row.cuh"

namespace anymask {

inline constexpr int32_t kMergePolls = 32;  // some 20 us

// By one warp of each block, once.
__device__ __forceinline__ void open_arrivals(const AttentionParams& p, int32_t units, int lane) {
  CudaArrivalsOpen& open = *p.arrivals_open;
  if (blockIdx.x == 0) {
    for (int32_t i = lane; i < p.slots * units; i += 32) p.arrivals[i] = {0, 0};
    if (lane == 0) open.seen = 0;
    ptx::fence_device();
    __syncwarp();
    if (lane == 0) ptx::store_release(&open.launch, p.launch);
  }
  if (lane != 0) return;
  while (ptx::load_acquire(&open.launch) != p.launch) {
  }
  if (atomicAdd(&open.seen, 1) == static_cast<int32_t>(gridDim.x) - 1) open.launch = 0;
}

// `rows` rows of a piece, 64 at most, are written by the 128 threads that call this and share `barrier`. opened() waits
// until arrivals are open; place(i) says where row i of these is merged.
template <class T, class Opened, class Place>
__device__ __forceinline__ void merge_pieces(const AttentionParams& p, CudaArrivals& arrivals, int32_t num_splits,
                                             int32_t rows, int barrier, bool waits, Opened&& opened, Place&& place) {
  const int thread = ptx::thread_index() % 128, lane = thread % 32;
  ptx::fence_device();
  ptx::barrier_sync(barrier, 128);
  bool all = false;
  if (thread == 0) {
    opened();
    all = atomicAdd(&arrivals.pieces, 1) == num_splits - 1;
    for (int32_t i = 0; waits && !all && i < kMergePolls; ++i) all = ptx::load_acquire(&arrivals.pieces) == num_splits;
  }
  if (!ptx::barrier_any(barrier, 128, all)) return;
  ptx::fence_device();
  const auto take = [&] { return __shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(&arrivals.rows, 1) : 0, 0); };
  for (int32_t row = take(); row < rows;) {
    const int32_t next = take();
    merge_row<T>(p, place(row), lane);
    row = next;
  }
}

}  // namespace anymask
