// Packing into the panels gemm-inl.h reads as B.
//
//   PackTransposed  B = X^T for X [rows x d] in memory: to[(i / kPanel)][d][kPanel] with to(i / kPanel, kk, i % kPanel)
//   = x(i, kk).
//                   This is K for S = Q K^T, V for dP = dO V^T. `rows` rows are read, the rest up to `padded` (a
//                   multiple of kPanel) are zeros.
//   PackPanels      B = X for X [rows x d]: to[(j / kPanel)][padded][kPanel] with to(j / kPanel, i, j % kPanel) = x(i,
//   j).
//                   This is V for O = P V, K for dQ = dS K. Columns beyond d up to a multiple of kPanel are zeros.
//
// x(i, j) = x[i * stride + j]; types as in load-inl.h, widened to fp32. Only elements of the `rows` x `d` view are
// read.
#include <cstddef>
#include <cstdint>

#if defined(ANYMASK_CPU_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_PACK_INL_H_
#undef ANYMASK_CPU_PACK_INL_H_
#else
#define ANYMASK_CPU_PACK_INL_H_
#endif

#include "cpu/gemm-inl.h"
#include "cpu/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four floats of each of the rows 0, 4, 8, ... of N, in the 128-bit blocks of one vector.
template <int N, class T>
HWY_INLINE hn::Vec<hn::FixedTag<float, N>> LoadEveryFourth(const T* HWY_RESTRICT x, int64_t stride) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (N > 4) {
    return hn::Combine(hn::FixedTag<float, N>(), LoadEveryFourth<N / 2>(x + N / 2 * stride, stride),
                       LoadEveryFourth<N / 2>(x, stride));
  }
#endif
  (void)stride;
  return LoadFloats(hn::FixedTag<float, N>(), x);
}

// N rows of four columns: to[j * to_stride + i] = x[i * stride + j].
template <int N, class T>
HWY_INLINE void TransposeFour(const T* HWY_RESTRICT x, int64_t stride, float* HWY_RESTRICT to, int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t j = 0; j < 4; ++j) {
    for (int64_t i = 0; i < N; ++i) to[j * to_stride + i] = to_float(x[i * stride + j]);
  }
#else
  const hn::FixedTag<float, N> d;
  const hn::FixedTag<uint64_t, N / 2> d64;
  const auto r0 = LoadEveryFourth<N>(x, stride), r1 = LoadEveryFourth<N>(x + stride, stride);
  const auto r2 = LoadEveryFourth<N>(x + 2 * stride, stride), r3 = LoadEveryFourth<N>(x + 3 * stride, stride);
  const auto a = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1)), b = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto c = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3)), e = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, c)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, c)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, b, e)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, b, e)), d, to + 3 * to_stride);
#endif
}

// to[j * to_stride + i] = x(i, j) for i < rows, zero for rows <= i < width; d is a multiple of 4. Rows left over are
// done by transposing the last four once more.
template <class T>
HWY_INLINE void TransposeInto(const T* HWY_RESTRICT x, int64_t stride, int64_t rows, int64_t d, int64_t width,
                              float* HWY_RESTRICT to, int64_t to_stride) {
  constexpr int kFew = HWY_MIN(kLanes, 4);
  int64_t i = 0;
  for (; i + kLanes <= rows; i += kLanes) {
    for (int64_t j = 0; j < d; j += 4)
      TransposeFour<kLanes>(x + i * stride + j, stride, to + j * to_stride + i, to_stride);
  }
  while (i < rows && rows >= kFew) {
    i = HWY_MIN(i, rows - kFew);
    for (int64_t j = 0; j < d; j += 4)
      TransposeFour<kFew>(x + i * stride + j, stride, to + j * to_stride + i, to_stride);
    i += kFew;
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < d; ++j) to[j * to_stride + i] = to_float(x[i * stride + j]);
  }
  for (; i < width; ++i) {
    for (int64_t j = 0; j < d; ++j) to[j * to_stride + i] = 0.f;
  }
}

template <class T>
HWY_NOINLINE void PackTransposed(const T* x, int64_t stride, int64_t rows, int64_t d, int64_t padded, float* to) {
  for (int64_t i = 0; i < padded; i += kPanel) {
    const int64_t here = HWY_MIN(HWY_MAX(rows - i, int64_t{0}), int64_t{kPanel});
    TransposeInto(x + (here > 0 ? i * stride : 0), stride, here, d, int64_t{kPanel}, to + i * d, int64_t{kPanel});
  }
}

template <class T>
HWY_NOINLINE void PackPanels(const T* x, int64_t stride, int64_t rows, int64_t d, int64_t padded, float* to) {
  const DF df;
  const int64_t full = d / kPanel;
  for (int64_t i = 0; i < rows; ++i) {
    const T* HWY_RESTRICT from = x + i * stride;
    float* HWY_RESTRICT out = to + i * kPanel;
    for (int64_t p = 0; p < full; ++p, from += kPanel, out += padded * kPanel) {
      hn::StoreU(LoadFloats(df, from), df, out);
      hn::StoreU(LoadFloats(df, from + kLanes), df, out + kLanes);
    }
    const int64_t rest = d - full * kPanel;
    if (rest > 0) {
      for (int64_t j = 0; j < rest; ++j) out[j] = to_float(from[j]);
      for (int64_t j = rest; j < kPanel; ++j) out[j] = 0.f;
    }
  }
  for (int64_t p = 0; p * kPanel < d; ++p) {
    float* out = to + (p * padded + HWY_MIN(rows, padded)) * kPanel;
    for (int64_t i = 0; i < (padded - rows) * kPanel; ++i) out[i] = 0.f;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
