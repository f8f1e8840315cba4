// Online softmax over the rows of mma accumulators: lane l holds rows l / 4 + 8 h of each 16-row tile, and the four
// lanes of a quad share a row.
//
// The reference m of a row is a score near its maximum so far, not the maximum: it moves only when a score exceeds it
// by 2^8 in the weights, so that O is seldom rescaled. Weights then reach 2^8 at most, harmless in 16 bits, and O / l
// and m + ln(l) are what they would be. A pure function of the scores: every spelling of a mask gives the same bits.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"
#include "cuda/tile/element.cuh"

namespace anymask {

inline constexpr float rescale_slack = 8;  // in powers of two

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// `folded`: scores are raw products, weights are exp2(unit * s - unit * m) with one fused operation. Otherwise scores
// are natural, unit is log2(e) and the difference is taken first: biases near the largest float then cancel, as they do
// in a plain softmax.
template <int m_tiles, bool folded>
struct OnlineSoftmax {
  float reference[m_tiles][2];  // m, -inf: nothing kept so far
  float sum[m_tiles][2];        // l, of this lane's columns

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) reference[m][h] = -INFINITY, sum[m][h] = 0;
    }
  }

  // m' = max(m, rowmax S - slack); O and l follow when some row of the warp moved.
  template <int n_tiles, int v_tiles>
  __device__ __forceinline__ void rise(const float (&s)[m_tiles][n_tiles][4], float (&o)[m_tiles][v_tiles][4],
                                       float unit, float slack) {
    float top[m_tiles][2];
    bool moves = false;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float x = fmaxf(s[m][0][2 * h], s[m][0][2 * h + 1]);
#pragma unroll
        for (int g = 1; g < n_tiles; ++g) x = fmaxf(x, fmaxf(s[m][g][2 * h], s[m][g][2 * h + 1]));
        top[m][h] = x;
        moves |= x > reference[m][h] + slack;
      }
    }
    if (!__any_sync(0xffffffffu, moves)) return;  // seldom beyond the first steps
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float x = quad_max(top[m][h]), before = reference[m][h];
        if (!(x > before + slack)) continue;
        reference[m][h] = x;
        const float change = ptx::exp2_approx((before - x) * unit);
        sum[m][h] *= change;
#pragma unroll
        for (int n = 0; n < v_tiles; ++n) o[m][n][2 * h] *= change, o[m][n][2 * h + 1] *= change;
      }
    }
  }

  // What weights are taken against: unit * m, or m; 0 where nothing is kept and every score is -inf.
  __device__ __forceinline__ float base(int m, int h, float unit) const {
    const float r = reference[m][h];
    return r == -INFINITY ? 0.f : folded ? r * unit : r;
  }
  __device__ __forceinline__ static float weight(float s, float base, float unit) {
    return ptx::exp2_approx(folded ? fmaf(s, unit, -base) : (s - base) * unit);
  }
};

// The end of a row: l over the whole row and m in natural units -> what O is multiplied by, and lse. An empty row has
// l = 0: O is 0 and lse is -inf, or the sink. A sink of -inf is none.
struct RowEnd {
  float factor, lse;
};
__device__ __forceinline__ RowEnd finish_row(float m, float l, float sink) {
  const float top = fmaxf(l == 0 ? -INFINITY : m, sink);
  if (top == -INFINITY) return {0.f, -INFINITY};
  const float kept = l == 0 ? 0.f : ptx::exp2_approx((m - top) * log2_e_f);
  const float total = l * kept + (sink == -INFINITY ? 0.f : ptx::exp2_approx((sink - top) * log2_e_f));
  return {__fdividef(kept, total), top + __logf(total)};  // within 3e-7, and far fewer instructions than exact ones
}

}  // namespace anymask
