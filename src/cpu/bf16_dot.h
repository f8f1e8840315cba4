// Products of bf16 pairs with the AVX-512 BF16 instruction (vdpbf16ps): two multiply-adds a lane, fp32 sums, denormals
// read as 0. Twice the rate of fp32. The file behind this header is the only one compiled for that instruction;
// everybody asks available() first.
//
// Scores and probabilities have rows score_stride floats apart (config.h): a constant, so that 12 rows cost one
// pointer.
//
// Pairs: B[k x n] is stored as panels of `panel` columns, [n / panel][k / 2][panel][2]: element (kk, j) beside (kk + 1,
// j). A pair of A is one 32-bit broadcast.
#pragma once

#include <cstdint>

namespace anymask::bf16_dot {

inline constexpr int rows = 12;     // of a register tile
inline constexpr int few_rows = 4;  // of a smaller one, for what 64 rows leave
inline constexpr int panel = 32;    // columns of a register tile: two vectors

// The processor and its operating system have AVX-512 F, BW, VL and BF16, and this build contains the instruction.
bool available();
// It pays here: AMD's processors. Elsewhere bf16 is widened to fp32 while packing.
bool fast();

// s[rows x panel] = scale * Q K^T; only the first few_rows of them where num_rows is no more (accumulate too). q: [k /
// 2][rows][2]; k: one panel, [k / 2][panel][2]; `pairs` = k / 2.
void scores(int64_t num_rows, const uint16_t* q, const uint16_t* k, int64_t pairs, float scale, float* s);

// A stretch of keys: probabilities at columns [column, column + count) of P; values at v, [count / 2][panel][2] for the
// first panel.
struct Segment {
  const uint16_t* v;
  int32_t column, count;
};

// o[rows x columns] = alpha * o + P V over the segments, in their order; columns is 16 or 32; v of each segment moved
// by v_offset. p: bf16, rows 2 * score_stride elements apart.
void accumulate(int64_t num_rows, const uint16_t* p, const Segment* segments, int64_t num_segments, int64_t v_offset,
                int columns, const float* alpha, float* o, int64_t o_stride);

// to[i] = bf16(from[i]), rounded to nearest even, for n a multiple of 16. `to` may be the memory of `from`.
void narrow(const float* from, int64_t n, uint16_t* to);

// Dependent-free products for the peak probe: returns the multiply-adds done, times two.
double peak_work(int64_t iterations);

}  // namespace anymask::bf16_dot
