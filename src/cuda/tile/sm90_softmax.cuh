// Online softmax of 64 rows in a warpgroup's registers: two rows a thread, kN / 4 columns of each.
//
// exp2 comes first, with the reference m of the tiles before; no maximum is taken. Only where a sum shows that P has
// outgrown the limit, or a row has no reference yet, m becomes the maximum, O and l are rescaled, and P is computed
// again: on the first tile of an item, and rarely after. What m is does not matter: out = O / l and
// lse = m + ln l are exact, P stays below 2^13, which fp16 holds. A row moves by its own scores alone, and masked and
// plain tiles use the same expressions: a mask gives the same bits however it is spelled.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"

namespace anymask::sm90 {

inline constexpr float kLimit = 8192;  // of a thread's sum of P over a row of a tile

// A word of the columns below `limit` of kN for the quarter c = lane % 4, in fragment order.
template <int kN>
__device__ __forceinline__ uint32_t word_below(int limit, int quarter) {
  const int rest = min(max(limit - 2 * quarter, 0), kN);
  const int kept = min(2 * (rest / 8) + min(rest % 8, 2), 32);
  return kept == 0 ? 0u : 0xffffffffu >> (32 - kept);
}

// kOffset: scores are S scale + offset, of each row and thread, until offset changes.
template <class T, int kN, bool kOffset>
struct Softmax {
  float shift[2];                   // per row: -m in log2 units; +inf: no reference yet
  float sum[2];                     // this thread's part of l
  float offset[kOffset ? 2 : 1]{};  // in log2 units

  __device__ __forceinline__ void start() {
    shift[0] = shift[1] = INFINITY;
    sum[0] = sum[1] = 0;
  }

  // P = exp2(S scale - m), l += rowsum P; where m has to move, rescale(alpha) for O and P again. `first`: no row has a
  // reference.
  template <class Rescale>
  __device__ __forceinline__ void update(const float (&s)[kN / 2], float scale_log2, bool first, uint32_t (&p)[kN / 4],
                                         Rescale rescale) {
    float part[2] = {INFINITY, INFINITY};
    if (!first) exponentials(s, scale_log2, from(shift[0], 0), from(shift[1], 1), p, part);
    if (first || __any_sync(0xffffffffu, !(part[0] <= kLimit && part[1] <= kLimit))) {
      move(s, scale_log2, part, rescale);
      exponentials(s, scale_log2, p, part);
    }
    sum[0] += part[0];
    sum[1] += part[1];
  }

  // S = -inf where the bit is 0.
  __device__ __forceinline__ static void mask(float (&s)[kN / 2], const uint32_t (&keep)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < kN / 4; ++i) {  // in bit order: the tests become one instruction for seven predicates
        float& x = s[4 * (i / 2) + 2 * h + (i & 1)];
        x = keep[h] & (1u << i) ? x : -INFINITY;
      }
    }
  }

  // Whether a row's part of P is beyond the limit, or not a number, or the row has no reference yet: then the part that
  // update takes with it is infinite, and need not be asked for.
  __device__ __forceinline__ bool must_move(const float (&part)[2]) const {
    return must_move(part[0], 0) || must_move(part[1], 1);
  }

  // P and this thread's part of rowsum P. A row without a reference: with 0 in its place.
  __device__ __forceinline__ void exponentials(const float (&s)[kN / 2], float scale_log2, uint32_t (&p)[kN / 4],
                                               float (&part)[2]) const {
    exponentials(s, scale_log2, from(shift[0] < INFINITY ? shift[0] : 0.f, 0),
                 from(shift[1] < INFINITY ? shift[1] : 0.f, 1), p, part);
  }

  // m' = rowmax S for the rows that must move; l = l alpha, rescale(alpha) for O.
  template <class Rescale>
  __device__ __forceinline__ void move(const float (&s)[kN / 2], float scale_log2, const float (&part)[2],
                                       Rescale rescale) {
    float alpha[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) alpha[h] = move_row(s, scale_log2, h, part[h]);
    rescale(alpha);
  }

 private:
  __device__ __forceinline__ float from(float x, int h) const {
    if constexpr (kOffset) return x + offset[h];
    return x;
  }
  __device__ __forceinline__ bool must_move(float part, int h) const {
    return !(part <= kLimit && shift[h] < INFINITY);
  }

  __device__ __forceinline__ static void exponentials(const float (&s)[kN / 2], float scale_log2, float shift0,
                                                      float shift1, uint32_t (&p)[kN / 4], float (&part)[2]) {
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < kN / 4; ++i) {  // row i % 2
      const float low = ptx::exp2_approx(fmaf(s[2 * i], scale_log2, i & 1 ? shift1 : shift0));
      const float high = ptx::exp2_approx(fmaf(s[2 * i + 1], scale_log2, i & 1 ? shift1 : shift0));
      sums[i & 1][0] += low;
      sums[i & 1][1] += high;
      p[i] = ptx::pack<T>(low, high);
    }
    part[0] = sums[0][0] + sums[0][1];
    part[1] = sums[1][0] + sums[1][1];
  }

  // The four lanes of a row agree.
  __device__ __forceinline__ float move_row(const float (&s)[kN / 2], float scale_log2, int h, float part) {
    int over = must_move(part, h);
    over |= __shfl_xor_sync(0xffffffffu, over, 1);
    over |= __shfl_xor_sync(0xffffffffu, over, 2);
    float tops[4] = {s[2 * h], s[2 * h + 1], s[2 * h + 4], s[2 * h + 5]};
#pragma unroll
    for (int i = 4; i < kN / 4; ++i) tops[i % 4] = fmaxf(tops[i % 4], s[4 * (i / 2) + 2 * h + (i & 1)]);
    float top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    if constexpr (kOffset) top = fmaf(top, scale_log2, offset[h]);
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    if (!over || !(top > -INFINITY)) return 1;
    const float next = kOffset ? -top : -top * scale_log2, alpha = ptx::exp2_approx(next - shift[h]);
    shift[h] = next;
    sum[h] *= alpha;
    return alpha;
  }
};

}  // namespace anymask::sm90
