// What a backward needs of each query row before its products, and what the sinks get.
//
//   delta = rowsum(dout * out) - dlse
//   row_lse = lse * log2(e), or lse where scores are natural; +inf where the row keeps nothing, so that its P is 0
//   dsinks = -sum over rows of exp(sink - lse) * delta
//
// Eight lanes a row, 64 rows of one head a block. On the way the sums of dQ become zero and so do the counters of the
// kernels to come: two launches fewer.
//
// An empty row without a sink has lse = -inf and adds nothing to dsinks; with one its lse is the sink, its out is 0,
// and what flows in through lse goes to the sink alone. Sums run in a fixed order: rows of a block by a tree, then
// blocks.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/tile/backward_score.cuh"
#include "cuda/tile/backward_scratch.h"
#include "cuda/tile/backward_words.cuh"
#include "cuda/tile/block_sum.cuh"

namespace anymask {

inline constexpr int delta_rows = 64;

// grid [ceil(rows / 64), at least 1][h_q], 256 threads.
template <class T>
__global__ void __launch_bounds__(256)
    backward_delta(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
  ptx::wait_for_previous();
  const int head = blockIdx.y, part = threadIdx.x % 8;
  if (blockIdx.x == 0 && head == 0 && threadIdx.x < 2) w.counters[threadIdx.x] = 0;
  if (w.dq_sum != nullptr) {
    const int64_t quads = w.dq_stride / 4;
    auto* const sums = reinterpret_cast<float4*>(w.dq_sum + head * w.dq_stride);
    for (int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x; i < quads; i += int64_t{gridDim.x} * 256)
      sums[i] = {0, 0, 0, 0};
  }

  float dsink = 0;
#pragma unroll
  for (int pass = 0; pass < delta_rows / 32; ++pass) {
    const int64_t row = int64_t{blockIdx.x} * delta_rows + pass * 32 + threadIdx.x / 8;
    const bool valid = row < w.rows;
    const int64_t batch = valid && p.packed == 0 ? row / p.tokens_q : 0, token = row - batch * p.tokens_q;
    float delta = 0;
    if (valid) {
      const auto* dout = static_cast<const T*>(p.dout.data) + batch * p.dout.stride_b + token * p.dout.stride_s +
                         head * p.dout.stride_h;
      const auto* out =
          static_cast<const T*>(p.out.data) + batch * p.out.stride_b + token * p.out.stride_s + head * p.out.stride_h;
      for (int d = part * 8; d < p.d_v; d += 64) {
        if (w.aligned) {
          delta = add_products<T>(delta, *reinterpret_cast<const uint4*>(dout + d),
                                  *reinterpret_cast<const uint4*>(out + d));
        } else {
          for (int i = 0; i < 8; ++i)
            delta = fmaf(static_cast<float>(dout[d + i]), static_cast<float>(out[d + i]), delta);
        }
      }
    }
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, distance);
    if (!valid || part != 0) continue;

    if (p.dlse.data != nullptr)
      delta -= p.dlse.data[batch * p.dlse.stride_b + head * p.dlse.stride_h + token * p.dlse.stride_q];
    const float lse = p.lse.data[batch * p.lse.stride_b + head * p.lse.stride_h + token * p.lse.stride_q];
    p.delta[head * p.stat_stride + row] = delta;
    p.row_lse[head * p.stat_stride + row] = lse == -INFINITY ? INFINITY : w.natural ? lse : lse * log2_e_f;
    if (w.dsinks_sum != nullptr && lse != -INFINITY) {
      const float sink = load_element(p.sinks.data, p.sinks.dtype, head * p.sinks.stride_h);
      dsink -= natural_probability(sink, lse, 0) * delta;
    }
  }
  if (w.dsinks_sum == nullptr) return;
  dsink = block_sum(dsink);
  if (threadIdx.x == 0) w.dsinks_sum[int64_t{head} * w.dsinks_blocks + blockIdx.x] = dsink;
}

// grid [h_q], 256 threads.
__global__ void __launch_bounds__(256)
    backward_dsinks(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
  ptx::wait_for_previous();
  const int head = blockIdx.x;
  float sum = 0;
  for (int i = threadIdx.x; i < w.dsinks_blocks; i += 256) sum += w.dsinks_sum[int64_t{head} * w.dsinks_blocks + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) store_element(p.dsinks.data, p.dsinks.dtype, head * p.dsinks.stride_h, sum);
}

}  // namespace anymask
