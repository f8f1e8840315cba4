// Sums over the threads of a block.
#pragma once

#include <cstdint>

namespace anymask {

// Sum of the values of the threads before this one; `total` of all. Every thread of the block calls it.
__device__ inline int32_t exclusive_sum(int32_t value, int32_t& total) {
  __shared__ int32_t sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  int32_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  int32_t before = 0;
  total = 0;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  __syncthreads();
  return before + sum - value;
}

// Sum over a block of 256 threads, in thread 0.
__device__ __forceinline__ float block_sum(float x) {
  __shared__ float warps[8];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) x += warps[i];
  return x;
}

}  // namespace anymask
