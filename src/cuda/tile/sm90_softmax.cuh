// Online softmax of 64 rows in a warpgroup's registers: two rows a thread, kN / 4 columns of each.
//
// The reference m of a row moves only when the maximum rises by more than 2^8 (kSlack): O is rescaled rarely, P stays
// below 2^8, and out = O / l, lse = m scale + ln l are exact whatever m is. Masked and plain tiles use the same
// expressions, so that a mask gives the same bits however it is spelled.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"

namespace anymask::sm90 {

inline constexpr float kSlack = 8;  // log2 units; P in fp16 is safe up to 15
inline constexpr float kLog2e = 1.4426950408889634f;

// A word of the columns below `limit` of kN for the quarter c = lane % 4, in fragment order.
template <int kN>
__device__ __forceinline__ uint32_t word_below(int limit, int quarter) {
  const int rest = min(max(limit - 2 * quarter, 0), kN);
  const int kept = min(2 * (rest / 8) + min(rest % 8, 2), 32);
  return kept == 0 ? 0u : 0xffffffffu >> (32 - kept);
}

template <int kN>
struct RowState {
  float reference[2], sum[2];  // per row: m, and this thread's part of l

  __device__ __forceinline__ void start() {
    reference[0] = reference[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  // m' = max(m, rowmax S), or m while it rose by no more than the slack;  l = l alpha;  S = exp2(S scale - m');
  // l += rowsum S. True where O has to be multiplied by alpha.
  template <bool kMasked>
  __device__ __forceinline__ bool softmax(float (&s)[kN / 2], const uint32_t (&keep)[2], float scale_log2,
                                          float (&alpha)[2]) {
    float minus_reference[2];
    bool moved = false;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (kMasked) {
#pragma unroll
        for (int i = 0; i < kN / 4; ++i) {
          float& x = s[4 * (i / 2) + 2 * h + (i & 1)];
          x = keep[h] & (1u << i) ? x : -INFINITY;
        }
      }
      float part[4] = {s[2 * h], s[2 * h + 1], s[2 * h + 4], s[2 * h + 5]};
#pragma unroll
      for (int i = 4; i < kN / 4; ++i) part[i % 4] = fmaxf(part[i % 4], s[4 * (i / 2) + 2 * h + (i & 1)]);
      float top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      alpha[h] = 1;
      if ((top - reference[h]) * scale_log2 > kSlack) {
        alpha[h] = ptx::exp2_approx((reference[h] - top) * scale_log2);
        reference[h] = top;
        moved = true;
      }
      minus_reference[h] = -reference[h] * scale_log2;
      if constexpr (kMasked) minus_reference[h] = reference[h] == -INFINITY ? 0.f : minus_reference[h];  // none so far
    }
    const bool any_moved = __any_sync(0xffffffffu, moved);
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {
      const int h = i & 1;
      s[2 * i] = ptx::exp2_approx(fmaf(s[2 * i], scale_log2, minus_reference[h]));
      s[2 * i + 1] = ptx::exp2_approx(fmaf(s[2 * i + 1], scale_log2, minus_reference[h]));
      sums[h][0] += s[2 * i];
      sums[h][1] += s[2 * i + 1];
    }
    if (any_moved) sum[0] *= alpha[0], sum[1] *= alpha[1];
    sum[0] += sums[0][0] + sums[0][1];
    sum[1] += sums[1][0] + sums[1][1];
    return any_moved;
  }
};

}  // namespace anymask::sm90
