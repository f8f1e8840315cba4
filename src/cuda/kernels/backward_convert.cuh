// Sums in fp32 become the gradients they are sums of: dq from the one-pass kernel's additions, dk and dv from one sum a
// query head. Every row of the outputs is written.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/backward_scratch.h"
#include "cuda/tile/backward_words.cuh"
#include "cuda/tile/item_source.cuh"

namespace anymask {

// dq = scale * dq_sum. grid [ceil(blocks of 16 rows / 4)][h_q], 256 threads: two warps a block of 16 rows.
template <class T>
__global__ void __launch_bounds__(256) backward_convert_dq(const __grid_constant__ AttentionParams p,
                                                           const __grid_constant__ BackwardScratch w, int head_dim) {
  ptx::wait_for_previous();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.y;
  const int64_t block = int64_t{blockIdx.x} * 4 + warp / 2;
  const auto first_block = [&](int n) {
    return (sequence_of(p, n).q_begin + sequence_of(p, n).batch * p.tokens_q) / 16 + n;
  };
  // The last sequence that starts at or before the block.
  int low = 0, high = p.num_sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (first_block(middle) <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const CudaSequence sequence = sequence_of(p, low);
  const int64_t row0 = (block - first_block(low)) * 16 + lane / 4;
  if (row0 - lane / 4 >= sequence.s_q) return;

  const float* const from = w.dq_sum + head * w.dq_stride + block * 16 * head_dim;
  for (int n = warp % 2; n < p.d_qk / 8; n += 2) {
    const float4 x = load_fragment(from + n * 128, lane);
    const float pairs[2][2] = {{x.x, x.y}, {x.z, x.w}};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t row = row0 + 8 * h;
      if (row >= sequence.s_q) continue;
      T* const to = static_cast<T*>(p.dq.data) + sequence.batch * p.dq.stride_b +
                    (sequence.q_begin + row) * p.dq.stride_s + head * p.dq.stride_h + n * 8 + lane % 4 * 2;
      const uint32_t word = ptx::pack<T>(pairs[h][0] * p.softmax_scale, pairs[h][1] * p.softmax_scale);
      if (w.aligned) {
        *reinterpret_cast<uint32_t*>(to) = word;
      } else {
        reinterpret_cast<uint16_t*>(to)[0] = static_cast<uint16_t>(word);
        reinterpret_cast<uint16_t*>(to)[1] = static_cast<uint16_t>(word >> 16);
      }
    }
  }
}

// dk, dv = sums over the query heads of a group, in their order. grid [ceil(keys / 256 * head_dim / 2)][h_kv][dk, dv],
// 256 threads, two elements each.
template <class T>
__global__ void __launch_bounds__(256) backward_sum_heads(const __grid_constant__ AttentionParams p,
                                                          const __grid_constant__ BackwardScratch w, int head_dim) {
  ptx::wait_for_previous();
  const bool is_dv = blockIdx.z == 1;
  const int64_t element = (int64_t{blockIdx.x} * 256 + threadIdx.x) * 2;
  if (element >= w.kv_stride) return;
  const int64_t row = element / head_dim;
  const int d = static_cast<int>(element - row * head_dim);
  if (d >= (is_dv ? p.d_v : p.d_qk)) return;
  float2 sum = {0, 0};
  const float* from = (is_dv ? w.dv_sum : w.dk_sum) + int64_t{blockIdx.y} * p.group * w.kv_stride + element;
  for (int i = 0; i < p.group; ++i, from += w.kv_stride) {
    const float2 x = *reinterpret_cast<const float2*>(from);
    sum.x += x.x, sum.y += x.y;
  }
  const CudaTensor& t = is_dv ? p.dv : p.dk;
  const int64_t batch = p.packed ? 0 : row / p.tokens_kv;
  const uint32_t word = ptx::pack<T>(sum.x, sum.y);
  auto* const to = static_cast<uint16_t*>(t.data) + batch * t.stride_b + (row - batch * p.tokens_kv) * t.stride_s +
                   blockIdx.y * t.stride_h + d;
  to[0] = static_cast<uint16_t>(word);
  to[1] = static_cast<uint16_t>(word >> 16);
}

}  // namespace anymask
