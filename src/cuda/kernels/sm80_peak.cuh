// sm80_peak: nothing but mma.sync on registers: the rate of the tensor cores as far as that instruction reaches them.
//
// Block of 8 warps; a warp keeps 8 independent accumulators, so that products follow one another without waiting.
#pragma once

#include "cuda/ptx/mma.cuh"

namespace anymask {

inline constexpr int32_t sm80_peak_threads = 256, sm80_peak_chains = 8;
// Of one thread block and step: 16 x 8 x 16 products a chain and warp.
inline constexpr double sm80_peak_flops = 2.0 * 16 * 8 * 16 * sm80_peak_chains * (sm80_peak_threads / 32);

__global__ void __launch_bounds__(sm80_peak_threads) sm80_peak(float* sink, int32_t steps) {
  float d[sm80_peak_chains][4] = {};
  uint32_t a[4], b[2];
  // Pseudo-random bf16 in [1, 2): zeros would save power, and so time.
  uint32_t state = threadIdx.x * 2654435761u + blockIdx.x + 1;
  const auto next = [&state] { return ((state = state * 1664525u + 1013904223u) & 0x007f007fu) | 0x3f803f80u; };
  for (uint32_t& x : a) x = next();
  for (uint32_t& x : b) x = next();
  for (int32_t step = 0; step < steps; ++step) {
#pragma unroll
    for (int chain = 0; chain < sm80_peak_chains; ++chain) ptx::mma_16816<__nv_bfloat16>(d[chain], a, b[0], b[1]);
  }
  float sum = 0;
  for (const auto& chain : d) sum += chain[0] + chain[1] + chain[2] + chain[3];
  if (sum == -1.0f) *sink = sum;  // never; keeps the products
}

}  // namespace anymask
