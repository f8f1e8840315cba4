// The warps that share a row: one, some of a block, or all of a cluster's blocks. Sums of a number each.
#pragma once

#include <cstdint>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/threads.cuh"

namespace anymask::topk {

inline constexpr int block_warps = 16;
inline constexpr int max_cluster = 8;  // blocks; more is not portable

// [2]: a sum is read while the next one is written.
using TeamNumbers = int32_t[2][block_warps * max_cluster];

template <int warps, bool cluster>
class Team {
  static_assert(!cluster || warps == block_warps);

 public:
  __device__ explicit Team(TeamNumbers& numbers)
      : numbers_(numbers),
        lane_(static_cast<int>(threadIdx.x) % 32),
        block_warp_(static_cast<int>(threadIdx.x) / 32),
        blocks_(cluster ? static_cast<int>(ptx::cluster_blocks()) : 1),
        rank_(cluster ? static_cast<int>(ptx::cluster_rank()) : 0) {}

  // This warp's place in its team, and its team's among all: neighbours are on different multiprocessors.
  __device__ int warp() const { return rank_ * block_warps + block_warp_ % warps; }
  __device__ int index() const {
    return block_warp_ / warps * (static_cast<int>(gridDim.x) / blocks_) + static_cast<int>(blockIdx.x) / blocks_;
  }
  __device__ int teams() const { return static_cast<int>(gridDim.x) / blocks_ * (block_warps / warps); }

  // Of the warps' numbers, the same in all lanes of a warp.
  __device__ int sum(int number) {
    if constexpr (warps == 1) return number;
    const int32_t* const numbers = exchange(number);
    int all = 0;
    for (int w = lane_; w < warps * blocks_; w += 32) all += numbers[w];
    return __reduce_add_sync(~0u, all);
  }
  // Of the warps with lower keys.
  __device__ int sum_before(int number) {
    if constexpr (warps == 1) return 0;
    const int32_t* const numbers = exchange(number);
    int lower = 0;
    for (int w = lane_; w < warp(); w += 32) lower += numbers[w];
    return __reduce_add_sync(~0u, lower);
  }

 private:
  // Everybody's number, by warp().
  __device__ const int32_t* exchange(int number) {
    int32_t* const numbers = numbers_[turn_];
    turn_ ^= 1;
    if constexpr (cluster) {
      if (lane_ < blocks_) ptx::cluster_store(&numbers[warp()], static_cast<uint32_t>(lane_), number);
      ptx::cluster_sync();
      return numbers;
    } else {
      if (lane_ == 0) numbers[block_warp_] = number;
      ptx::barrier_sync(1 + block_warp_ / warps, 32 * warps);
      return numbers + block_warp_ / warps * warps;
    }
  }

  TeamNumbers& numbers_;
  int lane_, block_warp_, blocks_, rank_, turn_ = 0;
};

}  // namespace anymask::topk
