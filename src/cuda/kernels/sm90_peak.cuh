// sm90_peak: nothing but wgmma on shared memory: the rate of Hopper's tensor cores under power.
//
// Block of 2 warpgroups, each D[64 x 256] += A[64 x 64] B[64 x 256] a step, on tiles of pseudo-random bf16.
#pragma once

#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace anymask {

inline constexpr int32_t sm90_peak_threads = 256;
inline constexpr double sm90_peak_flops = 2.0 * 64 * 256 * 64 * 2;  // of one thread block and step
struct alignas(1024) Sm90PeakShared {
  uint16_t a[64 * 64], b[256 * 64];  // rows of 64 elements in the 128-byte swizzle
};
static_assert(sizeof(Sm90PeakShared) == 40 * 1024);

__global__ void __launch_bounds__(sm90_peak_threads) sm90_peak(float* sink, int32_t steps) {
  __shared__ Sm90PeakShared smem;
  uint32_t state = threadIdx.x * 2654435761u + blockIdx.x + 1;
  auto* words = reinterpret_cast<uint32_t*>(&smem);
  for (uint32_t i = threadIdx.x; i < sizeof(smem) / 4; i += sm90_peak_threads) {
    state = state * 1664525u + 1013904223u;
    words[i] = (state & 0x807f807fu) | 0x3f003f00u;  // of both signs, between 1/2 and 1
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t a = ptx::descriptor(ptx::shared_address(smem.a), 16, 1024);
  const uint64_t b = ptx::descriptor(ptx::shared_address(smem.b), 16, 1024);
  float d[128] = {};
  for (int32_t step = 0; step < steps; ++step) {
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; ++k) ptx::Wgmma<__nv_bfloat16, 256>::ss<0, 0>(d, a + k * 2, b + k * 2, true);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::wgmma_settle(d);
  }
  float sum = 0;
  for (const float x : d) sum += x;
  if (sum == -1.0f) *sink = sum;  // never; keeps the products
}

}  // namespace anymask
