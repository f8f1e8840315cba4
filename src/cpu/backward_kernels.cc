// The vector code of the backward, compiled for each target, behind a table of functions.
#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward_kernels.cc"
#include "hwy/foreach_target.h"

#include "cpu/backward_tile-inl.h"
#include "cpu/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace backward_tile {

template <class T>
HWY_INLINE bool LoadRowsAs(const T* x, int64_t stride, int64_t rows, int64_t d, int64_t padded, const float* skip,
                           float* to, int64_t ld) {
  const DF df;
  const int64_t width = (d + kPanel - 1) / kPanel * kPanel, vectors = d / kPanel * kPanel;
  // x * 0: NaN as soon as one element is not finite. Two sums, or their latency would be the rows' time.
  auto zeros0 = hn::Zero(df), zeros1 = hn::Zero(df);
  for (int64_t i = 0; i < padded; ++i) {
    float* HWY_RESTRICT row = to + i * ld;
    if (i >= rows || (skip != nullptr && skip[i] == std::numeric_limits<float>::infinity())) {
      for (int64_t j = 0; j < width; j += kLanes) hn::Store(hn::Zero(df), df, row + j);
      continue;
    }
    const T* HWY_RESTRICT from = x + i * stride;
    for (int64_t j = 0; j < vectors; j += kPanel) {
      const auto v0 = LoadFloats(df, from + j), v1 = LoadFloats(df, from + j + kLanes);
      hn::Store(v0, df, row + j);
      hn::Store(v1, df, row + j + kLanes);
      zeros0 = hn::MulAdd(v0, hn::Zero(df), zeros0);
      zeros1 = hn::MulAdd(v1, hn::Zero(df), zeros1);
    }
    if (vectors == d) continue;
    LoadRow(from + vectors, d - vectors, 1.f, row + vectors);
    for (int64_t j = d; j < width; ++j) row[j] = 0.f;
    zeros0 = hn::MulAdd(hn::Load(df, row + vectors), hn::Zero(df), zeros0);
    zeros1 = hn::MulAdd(hn::Load(df, row + vectors + kLanes), hn::Zero(df), zeros1);
  }
  const auto zeros = hn::Add(zeros0, zeros1);
  return hn::AllTrue(df, hn::Eq(zeros, zeros));
}

bool LoadRows(DType type, const void* x, int64_t stride, int64_t rows, int64_t d, int64_t padded, const float* skip,
              float* to, int64_t ld) {
  switch (type) {
    case DType::bf16:
      return LoadRowsAs(static_cast<const Bf16*>(x), stride, rows, d, padded, skip, to, ld);
    case DType::f16:
      return LoadRowsAs(static_cast<const F16*>(x), stride, rows, d, padded, skip, to, ld);
    default:
      return LoadRowsAs(static_cast<const float*>(x), stride, rows, d, padded, skip, to, ld);
  }
}

void PackTransposedOf(DType type, const void* x, int64_t stride, int64_t rows, int64_t d, float* to) {
  const int64_t padded = (rows + kPanel - 1) / kPanel * kPanel;
  switch (type) {
    case DType::bf16:
      return PackTransposed(static_cast<const Bf16*>(x), stride, rows, d, padded, to);
    case DType::f16:
      return PackTransposed(static_cast<const F16*>(x), stride, rows, d, padded, to);
    default:
      return PackTransposed(static_cast<const float*>(x), stride, rows, d, padded, to);
  }
}

template <class T>
HWY_INLINE void StoreRowsAs(const float* from, int64_t ld, int64_t rows, int64_t d, T* x, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) StoreRow(from + i * ld, d, 1.f, x + i * stride);
}
void StoreRows(DType type, const float* from, int64_t ld, int64_t rows, int64_t d, void* x, int64_t stride) {
  switch (type) {
    case DType::bf16:
      return StoreRowsAs(from, ld, rows, d, static_cast<Bf16*>(x), stride);
    case DType::f16:
      return StoreRowsAs(from, ld, rows, d, static_cast<F16*>(x), stride);
    default:
      return StoreRowsAs(from, ld, rows, d, static_cast<float*>(x), stride);
  }
}

// Eight lanes and their tree, whatever the target: d is a multiple of 8.
template <class T>
HWY_INLINE void RowDotsAs(const T* dout, int64_t dout_stride, const T* out, int64_t out_stride, int64_t rows, int64_t d,
                          float* delta) {
  const hn::CappedTag<float, 8> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d8));
  for (int64_t i = 0; i < rows; ++i) {
    auto sum = hn::Zero(d8);
    for (int64_t j = 0; j < d; j += lanes) {
      sum = hn::MulAdd(LoadFloats(d8, dout + i * dout_stride + j), LoadFloats(d8, out + i * out_stride + j), sum);
    }
    delta[i] = hn::GetLane(hn::SumOfLanes(d8, sum));
  }
}
void RowDots(DType type, const void* dout, int64_t dout_stride, const void* out, int64_t out_stride, int64_t rows,
             int64_t d, float* delta) {
  switch (type) {
    case DType::bf16:
      return RowDotsAs(static_cast<const Bf16*>(dout), dout_stride, static_cast<const Bf16*>(out), out_stride, rows, d,
                       delta);
    case DType::f16:
      return RowDotsAs(static_cast<const F16*>(dout), dout_stride, static_cast<const F16*>(out), out_stride, rows, d,
                       delta);
    default:
      return RowDotsAs(static_cast<const float*>(dout), dout_stride, static_cast<const float*>(out), out_stride, rows,
                       d, delta);
  }
}

const backward::Kernels* Table() {
  static constexpr backward::Kernels table{LoadRows, PackTransposedOf, StoreRows, RowDots,
                                           TileKeys, TileDq,           kPanel,    kRows};
  return &table;
}

}  // namespace backward_tile

const backward::Kernels* BackwardKernels() { return backward_tile::Table(); }

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anymask {
HWY_EXPORT(BackwardKernels);
namespace backward {
const Kernels& kernels() { return *HWY_DYNAMIC_DISPATCH(BackwardKernels)(); }
}  // namespace backward
}  // namespace anymask
#endif  // HWY_ONCE
