// Register-tiled products of small fp32 matrices: C[m x n] (=|+=) A[m x k] B[k x n].
//
//   A   read by broadcast, a(i, kk) = a[i * a_row + kk * a_col], so it may be read transposed. A stride may be an
//       std::integral_constant<int64_t, N>: rows then cost no pointer each (12 rows would not fit the integer
//       registers).
//   B   b(kk, j) = b[(j / kPanel) * b_panel + kk * b_row + j % kPanel]: panels of kPanel columns. Packed panels ([n /
//   kPanel][k][kPanel])
//       have b_row = kPanel, b_panel = k * kPanel; a row-major matrix has b_row = its row stride, b_panel = kPanel.
//   C   row-major with row stride ldc.
//   n   any; but B's rows are read and C's rows written up to n rounded up to kLanes (B's and C's memory must reach so
//   far). m, k any.  Each element is summed over kk in ascending order with one fused multiply-add a step: results do
//   not depend on
//       how the matrix is cut into tiles.
//
// The tile is kRows x 2 vectors: with AVX-512 12 x 2 (24 accumulators + 2 of B + 1 broadcast of 32 registers), with
// AVX2 6 x 2 (12 + 2 + 1 of 16), with NEON 8 x 3 would be 24 of 32: 12 x 2 is as many and shares the code.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(ANYMASK_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_GEMM_INL_H_
#undef ANYMASK_CPU_GEMM_INL_H_
#else
#define ANYMASK_CPU_GEMM_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
inline constexpr int kLanes = HWY_LANES(float);
inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64;  // 32 vector registers, not 16
inline constexpr int kRows = kManyRegisters ? 12 : 6;
inline constexpr int kPanel = 2 * kLanes;  // divides 64 for every target

// acc[r][v] += sum over kk < k of a(r, kk) * B[kk][v]. The heart of everything: all loops but the last are unrolled.
template <int R, int NV, class RowStride, class ColStride>
HWY_INLINE void TileFma(const float* HWY_RESTRICT a, RowStride a_row, ColStride a_col, const float* HWY_RESTRICT b,
                        int64_t b_row, int64_t k, VF (&acc)[R][NV]) {
  const DF d;
  for (int64_t kk = 0; kk < k; ++kk) {
    VF bv[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) bv[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const VF av = hn::Set(d, a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::MulAdd(av, bv[v], acc[r][v]);
    }
    a += a_col;
    b += b_row;
  }
}

template <int R, int NV, bool kAccumulate, class RowStride, class ColStride>
HWY_INLINE void GemmTile(const float* a, RowStride a_row, ColStride a_col, const float* b, int64_t b_row, int64_t k,
                         float* c, int64_t ldc) {
  const DF d;
  VF acc[R][NV];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) acc[r][v] = kAccumulate ? hn::LoadU(d, c + r * ldc + v * kLanes) : hn::Zero(d);
  }
  TileFma<R, NV>(a, a_row, a_col, b, b_row, k, acc);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(acc[r][v], d, c + r * ldc + v * kLanes);
  }
}

// All rows of one panel of NV vectors: tiles of kRows, then what is left by halves.
template <int R, int NV, bool kAccumulate, class RowStride, class ColStride>
HWY_INLINE void GemmRows(int64_t m, const float* a, RowStride a_row, ColStride a_col, const float* b, int64_t b_row,
                         int64_t k, float* c, int64_t ldc) {
  int64_t i = 0;
  for (; i + R <= m; i += R) GemmTile<R, NV, kAccumulate>(a + i * a_row, a_row, a_col, b, b_row, k, c + i * ldc, ldc);
  if constexpr (R > 1) {
    if (i < m) GemmRows<R / 2, NV, kAccumulate>(m - i, a + i * a_row, a_row, a_col, b, b_row, k, c + i * ldc, ldc);
  }
}

// The contract at the top of the file. Panels are the outer loop: a panel of B (k * kPanel floats) should fit the
// first-level cache.
template <bool kAccumulate, class RowStride, class ColStride>
HWY_NOINLINE void Gemm(int64_t m, int64_t n, int64_t k, const float* a, RowStride a_row, ColStride a_col,
                       const float* b, int64_t b_row, int64_t b_panel, float* c, int64_t ldc) {
  int64_t j = 0;
  for (; j + kLanes < n; j += kPanel) {
    GemmRows<kRows, 2, kAccumulate>(m, a, a_row, a_col, b + j / kPanel * b_panel, b_row, k, c + j, ldc);
  }
  if (j < n) GemmRows<kRows, 1, kAccumulate>(m, a, a_row, a_col, b + j / kPanel * b_panel, b_row, k, c + j, ldc);
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
