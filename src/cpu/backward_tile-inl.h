// The backward of one tile, for one vector target. Lanes are keys.
//
//   for each panel of keys (two vectors):
//     S  = Q K^T                  register tiles of kRows rows; those that keep nothing are skipped
//     P  = exp2((scale * S - lse) * log2(e)), 0 where masked
//     dV += P^T dO
//     dP = dO V^T
//     dS = P o (dP - delta)
//     dK += dS^T Q
//   dQ += dS K                    when the tile's turn has come (backward.cc)
//
// Why lanes are keys: Q and dO stream past a chunk that stays, and in this orientation each is needed in one layout
// alone, plain rows (read by broadcast for S and dP, as the right-hand side for dK and dV), so streaming costs a copy;
// the layouts that need transposing (K^T, V^T) are made once a chunk. Rows of a bias are contiguous along keys too.
// Mask bits come with a word of rows a key and are transposed, 64 x 64 at a time, for PARTIAL tiles alone.
//
// A panel's P, then dS, lies in p [rows][ld_p]: read transposed by broadcast (stride 1 along keys) for dV and dK, and
// by rows for dQ. Contractions run over rows or keys that exist, so padding is never multiplied; masked pairs inside a
// register tile multiply a zero, which is safe unless the other factor is not finite: such tiles take `careful`
// products, which leave masked pairs out.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/backward_tile.h"

#if defined(ANYMASK_CPU_BACKWARD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_BACKWARD_TILE_INL_H_
#undef ANYMASK_CPU_BACKWARD_TILE_INL_H_
#else
#define ANYMASK_CPU_BACKWARD_TILE_INL_H_
#endif

#include "cpu/exp-inl.h"
#include "cpu/gemm-inl.h"
#include "cpu/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace backward_tile {
namespace hn = hwy::HWY_NAMESPACE;
using backward::BiasGradient;
using backward::Tile;

template <int64_t N>
using Constant = std::integral_constant<int64_t, N>;
using PStride = Constant<backward::ld_p>;
inline constexpr PStride p_stride{};
inline constexpr Constant<1> one{};

inline constexpr int64_t kTileRows = backward::tile_queries;
inline constexpr float kLog2E = 1.44269502f, kLog2ERest = 1.92596303e-8f;  // their sum is log2(e) to 48 bits
// Rows left over after register tiles of kRows: 64 = 5 * 12 + 4 = 10 * 6 + 4.
inline constexpr int kSmall = kPanel < 4 ? kPanel : 4;
static_assert(kTileRows % kRows % kSmall == 0 && kTileRows % kSmall == 0);
static_assert(kPanel <= backward::max_panel && 64 % kPanel == 0);

// Keys of a panel are dealt to register tiles exactly, for a row too many would reach into the next panel: as many of
// kRows as leave a multiple of kSmall (16 = 6 + 6 + 4, 32 = 12 + 12 + 4 + 4).
constexpr int large_tiles() {
  int n = kPanel / kRows;
  while (n > 0 && (kPanel - n * kRows) % kSmall != 0) --n;
  return n;
}
inline constexpr int64_t kLargeKeys = large_tiles() * kRows;

// The register tile that begins at row r of the 64.
HWY_INLINE int64_t TileRowsAt(int64_t r) { return r + kRows <= kTileRows ? kRows : kSmall; }
HWY_INLINE bool Keeps(uint64_t rows, int64_t r, int64_t count) {
  return ((rows >> r) & ((uint64_t{1} << count) - 1)) != 0;
}

// X[r, panel] = A[r, 0..d) B[panel] for the register tiles that keep something. A is q or dout, B a transposed panel.
template <int64_t kLd>
HWY_NOINLINE void RowsTimesPanel(uint64_t any, int64_t rows, const float* a, const float* b, int64_t d, float* x,
                                 int64_t ldx) {
  for (int64_t r = 0; r < rows; r += kRows) {
    if (r + kRows <= kTileRows) {
      if (Keeps(any, r, kRows)) {
        GemmTile<kRows, 2, false>(a + r * kLd, Constant<kLd>(), one, b, int64_t{kPanel}, d, x + r * ldx, ldx);
      }
      continue;
    }
    for (int64_t s = r; s < rows; s += kSmall) {
      if (Keeps(any, s, kSmall)) {
        GemmTile<kSmall, 2, false>(a + s * kLd, Constant<kLd>(), one, b, int64_t{kPanel}, d, x + s * ldx, ldx);
      }
    }
  }
}
HWY_INLINE void RowsTimesPanel(uint64_t any, int64_t rows, const float* a, int64_t ld, const float* b, int64_t d,
                               float* x, int64_t ldx) {
  if (ld == 80) return RowsTimesPanel<80>(any, rows, a, b, d, x, ldx);
  if (ld == 144) return RowsTimesPanel<144>(any, rows, a, b, d, x, ldx);
  return RowsTimesPanel<272>(any, rows, a, b, d, x, ldx);
}

// C[key, 0..d) += sum over rows of P[row, key] X[row, 0..d) for the panel's keys: dV and dK. p points at (first row,
// first key).
template <int NV>
HWY_INLINE void PanelTransposedStrip(int64_t keys, int64_t depth, const float* p, const float* x, float* c,
                                     int64_t ld) {
  int64_t i = 0;
  for (; i < kLargeKeys && i < keys; i += kRows)
    GemmTile<kRows, NV, true>(p + i, one, p_stride, x, ld, depth, c + i * ld, ld);
  for (; i < keys; i += kSmall) GemmTile<kSmall, NV, true>(p + i, one, p_stride, x, ld, depth, c + i * ld, ld);
}
HWY_NOINLINE void PanelTransposedTimesRows(int64_t keys, int64_t depth, const float* p, const float* x, int64_t d,
                                           float* c, int64_t ld) {
  int64_t j = 0;
  for (; j + kLanes < d; j += kPanel) PanelTransposedStrip<2>(keys, depth, p, x + j, c + j, ld);
  if (j < d) PanelTransposedStrip<1>(keys, depth, p, x + j, c + j, ld);
}

// C[R rows, NV vectors] += dS[R, depth] K[depth]. Where the tile would write beyond the rows or columns that exist (dq
// is the caller's memory) it goes through a small copy.
template <int R, int NV>
HWY_INLINE void DqTile(const float* ds, const float* k, int64_t ld, int64_t depth, int64_t rows, int64_t cols,
                       float* dq, int64_t stride) {
  if (rows >= R && cols >= NV * kLanes) {
    GemmTile<R, NV, true>(ds, p_stride, one, k, ld, depth, dq, stride);
    return;
  }
  HWY_ALIGN float sum[R * NV * kLanes];
  GemmTile<R, NV, false>(ds, p_stride, one, k, ld, depth, sum, int64_t{NV * kLanes});
  for (int64_t i = 0; i < HWY_MIN(rows, int64_t{R}); ++i) {
    for (int64_t j = 0; j < HWY_MIN(cols, int64_t{NV * kLanes}); ++j) dq[i * stride + j] += sum[i * NV * kLanes + j];
  }
}

// Masked pairs left out: c(key or row) += p(row, key) * x for the pairs whose bit is set.
HWY_NOINLINE void CarefulKeys(const Tile& t, int64_t key_begin, int64_t key_end, const float* x, int64_t d, float* c,
                              int64_t ld) {
  for (int64_t key = key_begin; key < key_end; ++key) {
    for (uint64_t left = t.bits[key]; left != 0; left &= left - 1) {
      const int64_t row = std::countr_zero(left);
      const float weight = t.p[row * backward::ld_p + key];
      for (int64_t j = 0; j < d; ++j) c[key * ld + j] += weight * x[row * ld + j];
    }
  }
}
HWY_NOINLINE void CarefulDq(const Tile& t) {
  for (int64_t key = 0; key < t.keys; ++key) {
    for (uint64_t left = t.bits[key]; left != 0; left &= left - 1) {
      const int64_t row = std::countr_zero(left);
      const float weight = t.p[row * backward::ld_p + key];
      for (int64_t j = 0; j < t.d_qk; ++j) t.dq[row * t.dq_stride + j] += weight * t.k[key * t.ld_qk + j];
    }
  }
}

// The mask of one vector of keys, from the bits of the row's panel.
HWY_INLINE hn::Mask<DF> VectorMask(DF d, uint64_t panel_bits, int v) {
  const uint64_t bits = panel_bits >> (v * kLanes);
  uint8_t bytes[8];
  __builtin_memcpy(bytes, &bits, 8);
  return hn::LoadMaskBits(d, bytes);
}
HWY_INLINE uint64_t PanelBits(const Tile& t, int64_t row, int64_t key) {
  return t.row_bits[key / 64 * kTileRows + row] >> (key % 64);
}

template <class T>
HWY_INLINE void LoadBiasRow(const T* from, int64_t stride, int64_t n, float* to) {
  if (stride == 1) {
    LoadRow(from, n, 1.f, to);
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] = to_float(from[j * stride]);
  }
}
// addend[row, key] = the bias of a panel; one row where the bias is the same for all of them.
template <class T>
HWY_NOINLINE void LoadBias(const Tile& t, int64_t row_begin, int64_t row_end, int64_t key, int64_t n) {
  const T* from = static_cast<const T*>(t.bias.data) + key * t.bias.stride_kv;
  if (t.bias.stride_q == 0) return LoadBiasRow(from, t.bias.stride_kv, n, t.addend);
  for (int64_t r = row_begin; r < row_end; ++r) {
    LoadBiasRow(from + r * t.bias.stride_q, t.bias.stride_kv, n, t.addend + r * backward::max_panel);
  }
}

// q times the score factor, for the rows that register tiles read.
HWY_NOINLINE void ScaleQueries(const Tile& t) {
  const DF d;
  const auto factor = hn::Set(d, t.score_factor);
  const int64_t padded = HWY_MIN(kTileRows, (t.rows + kRows - 1) / kRows * kRows);
  for (int64_t r = 0; r < padded; ++r) {
    for (int64_t j = 0; j < t.d_qk; j += kLanes) {
      const int64_t at = r * t.ld_qk + j;
      hn::Store(hn::Mul(factor, hn::Load(d, t.q + at)), d, t.score_q + at);
    }
  }
}

// P = exp(S - lse), with softcap, bias and ALiBi where kOptions; 0 where masked. S is in the units of
// cpu/score_units.h, rounded step by step as the forward rounds it. In powers of two lse * log2(e) is subtracted in two
// parts: rounded once it would weigh as much as the rounding of lse itself.
template <bool kMasked, bool kOptions>
HWY_NOINLINE void Probabilities(const Tile& t, int64_t row_begin, int64_t row_end, int64_t key) {
  const DF d;
  const auto log2e = hn::Set(d, kLog2E);
  const auto cap = hn::Set(d, t.cap);
  const auto slope = hn::Set(d, t.alibi_slope);
  const int64_t addend_stride = t.bias.stride_q == 0 ? 0 : backward::max_panel;
  const bool natural = kOptions && t.natural;
  for (int64_t r = row_begin; r < row_end; ++r) {
    float* HWY_RESTRICT p = t.p + r * backward::ld_p + key;
    const auto lse = hn::Set(d, t.lse[r]);
    const auto lse_rest = hn::Set(d, t.lse[r] * kLog2ERest);
    uint64_t bits = 0;
    if constexpr (kMasked) bits = PanelBits(t, r, key);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      auto s = hn::Load(d, p + v * kLanes);
      if constexpr (kOptions) {
        if (t.cap != 0.f) {
          const auto tanh = Tanh(d, s);
          hn::Store(hn::NegMulAdd(tanh, tanh, hn::Set(d, 1.f)), d, t.cap_slope + r * backward::max_panel + v * kLanes);
          s = hn::Mul(tanh, cap);
        }
        if (t.bias.data != nullptr) s = hn::Add(s, hn::Load(d, t.addend + r * addend_stride + v * kLanes));
        if (t.alibi_slope != 0.f) {
          const auto distance =
              hn::Sub(hn::Set(d, static_cast<float>(t.alibi_distance + r - key - v * kLanes)), hn::Iota(d, 0.f));
          s = hn::NegMulAdd(slope, hn::Abs(distance), s);
        }
      }
      const auto power = natural ? hn::Mul(hn::Sub(s, lse), log2e) : hn::Sub(hn::NegMulAdd(lse, log2e, s), lse_rest);
      auto result = Exp2(d, power);
      if constexpr (kMasked) result = hn::IfThenElseZero(VectorMask(d, bits, v), result);
      hn::Store(result, d, p + v * kLanes);
    }
  }
}

// dS = P o (dP - delta). In p: scale * dS * derivative of the softcap; in dp, where the bias has a gradient: dS.
template <bool kMasked, bool kOptions>
HWY_NOINLINE void ScoreGradients(Tile& t, int64_t row_begin, int64_t row_end, int64_t key) {
  const DF d;
  const auto scale = hn::Set(d, t.scale);
  VF for_sink[2] = {hn::Zero(d), hn::Zero(d)};
  for (int64_t r = row_begin; r < row_end; ++r) {
    float* HWY_RESTRICT p = t.p + r * backward::ld_p + key;
    float* HWY_RESTRICT dp = t.dp + r * backward::max_panel;
    const auto delta = hn::Set(d, t.delta[r]);
    uint64_t bits = 0;
    if constexpr (kMasked) bits = PanelBits(t, r, key);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      if constexpr (kOptions) {
        if (t.sink_weight != nullptr) {
          auto gain = hn::Mul(hn::Load(d, p + v * kLanes), hn::Load(d, dp + v * kLanes));
          if constexpr (kMasked) gain = hn::IfThenElseZero(VectorMask(d, bits, v), gain);
          for_sink[v] = hn::MulAdd(hn::Set(d, t.sink_weight[r]), gain, for_sink[v]);
        }
      }
      auto ds = hn::Mul(hn::Load(d, p + v * kLanes), hn::Sub(hn::Load(d, dp + v * kLanes), delta));
      if constexpr (kMasked) ds = hn::IfThenElseZero(VectorMask(d, bits, v), ds);
      if constexpr (kOptions) {
        if (t.dbias.kind != BiasGradient::none) hn::Store(ds, d, dp + v * kLanes);
        if (t.cap != 0.f) {
          // Masked again: where no product was formed the slope is of whatever lay there, and 0 * NaN is NaN.
          ds = hn::Mul(ds, hn::Load(d, t.cap_slope + r * backward::max_panel + v * kLanes));
          if constexpr (kMasked) ds = hn::IfThenElseZero(VectorMask(d, bits, v), ds);
        }
      }
      hn::Store(hn::Mul(ds, scale), d, p + v * kLanes);
    }
  }
  if constexpr (kOptions) {
    HWY_ALIGN float sums[kPanel];
    for (int v = 0; v < 2; ++v) hn::Store(for_sink[v], d, sums + v * kLanes);
    for (int64_t j = 0; j < HWY_MIN(int64_t{kPanel}, t.keys - key); ++j) t.sink_sum += static_cast<double>(sums[j]);
  }
}

template <class T>
HWY_INLINE void StoreBiasGradient(const Tile& t, int64_t row_begin, int64_t row_end, int64_t key, int64_t n) {
  T* to = static_cast<T*>(t.dbias.data) + key * t.dbias.stride_kv;
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* from = t.dp + r * backward::max_panel;
    T* row = to + r * t.dbias.stride_q;
    if (t.dbias.stride_kv == 1) {
      StoreRow(from, n, 1.f, row);
    } else {
      for (int64_t j = 0; j < n; ++j) from_float(from[j], row[j * t.dbias.stride_kv]);
    }
  }
}
HWY_NOINLINE void BiasGradients(const Tile& t, int64_t row_begin, int64_t row_end, int64_t key, int64_t n) {
  const DF d;
  switch (t.dbias.kind) {
    case BiasGradient::none:
      break;
    case BiasGradient::store:
      switch (t.dbias.dtype) {
        case DType::bf16:
          StoreBiasGradient<Bf16>(t, row_begin, row_end, key, n);
          break;
        case DType::f16:
          StoreBiasGradient<F16>(t, row_begin, row_end, key, n);
          break;
        default:
          StoreBiasGradient<float>(t, row_begin, row_end, key, n);
          break;
      }
      break;
    case BiasGradient::add: {
      float* to = static_cast<float*>(t.dbias.data) + key * t.dbias.stride_kv;
      for (int64_t r = row_begin; r < row_end; ++r) {
        const float* from = t.dp + r * backward::max_panel;
        for (int64_t j = 0; j < n; ++j) to[r * t.dbias.stride_q + j * t.dbias.stride_kv] += from[j];
      }
      break;
    }
    case BiasGradient::columns:
      for (int v = 0; v < 2; ++v) {
        auto sum = hn::Zero(d);
        for (int64_t r = row_begin; r < row_end; ++r)
          sum = hn::Add(sum, hn::Load(d, t.dp + r * backward::max_panel + v * kLanes));
        float* to = t.dbias.column_sums + key + v * kLanes;
        hn::Store(hn::Add(hn::Load(d, to), sum), d, to);
      }
      break;
  }
}

// 64 x 64 bits, in place: halves of ever smaller blocks change places.
HWY_INLINE void Transpose64(uint64_t* HWY_RESTRICT x) {
  uint64_t mask = 0x00000000ffffffffULL;
  for (int width = 32; width != 0; width >>= 1, mask ^= mask << width) {
    for (int i = 0; i < 64; i = (i + width + 1) & ~width) {
      const uint64_t change = ((x[i] >> width) ^ x[i + width]) & mask;
      x[i] ^= change << width;
      x[i + width] ^= change;
    }
  }
}

// any, all and row_bits of the tile.
HWY_NOINLINE void ReadBits(const Tile& t) {
  const uint64_t valid = t.rows == 64 ? ~uint64_t{0} : (uint64_t{1} << t.rows) - 1;
  if (t.bits == nullptr) {
    for (int64_t n = 0; n * kPanel < t.keys; ++n) t.any[n] = t.all[n] = valid;
    return;
  }
  for (int64_t n = 0; n * kPanel < t.keys; ++n) {
    uint64_t any = 0, all = valid;
    for (int64_t key = n * kPanel; key < HWY_MIN((n + 1) * kPanel, t.keys); ++key) {
      any |= t.bits[key];
      all &= t.bits[key];
    }
    t.any[n] = any & valid;
    t.all[n] = all;
  }
  for (int64_t block = 0; block * 64 < t.keys; ++block) {
    uint64_t* to = t.row_bits + block * kTileRows;
    for (int64_t i = 0; i < 64; ++i) to[i] = block * 64 + i < t.keys ? t.bits[block * 64 + i] : 0;
    Transpose64(to);
  }
}

template <bool kMasked, bool kOptions>
HWY_INLINE void PanelKeys(Tile& t, int64_t n, int64_t row_begin, int64_t row_end) {
  const int64_t key = n * kPanel;
  const int64_t keys = HWY_MIN(int64_t{kPanel}, t.keys - key);
  const int64_t depth = row_end - row_begin;
  const float* p = t.p + row_begin * backward::ld_p + key;
  const bool careful = kMasked && !t.rows_finite;

  // S = Q K^T, P
  RowsTimesPanel(t.any[n], t.rows, t.score_q, t.ld_qk, t.k_transposed + key * t.d_qk, t.d_qk, t.p + key,
                 backward::ld_p);
  if constexpr (kOptions) {
    if (t.bias.data != nullptr) {
      switch (t.bias.dtype) {
        case DType::bf16:
          LoadBias<Bf16>(t, row_begin, row_end, key, keys);
          break;
        case DType::f16:
          LoadBias<F16>(t, row_begin, row_end, key, keys);
          break;
        default:
          LoadBias<float>(t, row_begin, row_end, key, keys);
          break;
      }
    }
  }
  Probabilities<kMasked, kOptions>(t, row_begin, row_end, key);

  // dV += P^T dO
  if (careful) {
    CarefulKeys(t, key, key + keys, t.dout, t.d_v, t.dv, t.ld_v);
  } else {
    PanelTransposedTimesRows(keys, depth, p, t.dout + row_begin * t.ld_v, t.d_v, t.dv + key * t.ld_v, t.ld_v);
  }

  // dP = dO V^T, dS
  RowsTimesPanel(t.any[n], t.rows, t.dout, t.ld_v, t.v_transposed + key * t.d_v, t.d_v, t.dp, backward::max_panel);
  ScoreGradients<kMasked, kOptions>(t, row_begin, row_end, key);
  if constexpr (kOptions) BiasGradients(t, row_begin, row_end, key, keys);

  // dK += dS^T Q
  if (careful) {
    CarefulKeys(t, key, key + keys, t.q, t.d_qk, t.dk, t.ld_qk);
  } else {
    PanelTransposedTimesRows(keys, depth, p, t.q + row_begin * t.ld_qk, t.d_qk, t.dk + key * t.ld_qk, t.ld_qk);
  }
}

// Fetches a panel's share of the rows that come next: waiting for them would cost a tenth of the time of 64-wide heads.
HWY_INLINE void PrefetchNext(const Tile& t, int64_t n) {
  if (t.next_rows == 0) return;
  const int64_t panels = (t.keys + kPanel - 1) / kPanel;
  const int64_t begin = t.next_rows * n / panels, end = t.next_rows * (n + 1) / panels;
  PrefetchRows(t.next_q, t.next_q_stride, t.next_q_bytes, begin, end);
  PrefetchRows(t.next_dout, t.next_dout_stride, t.next_dout_bytes, begin, end);
}

template <bool kOptions>
HWY_INLINE void TileKeysWith(Tile& t) {
  const uint64_t valid = t.rows == 64 ? ~uint64_t{0} : (uint64_t{1} << t.rows) - 1;
  for (int64_t n = 0; n * kPanel < t.keys; ++n) {
    PrefetchNext(t, n);
    if (t.any[n] == 0) continue;
    // Rows from the first register tile that keeps something to the last: between them masked pairs hold zeros.
    const int64_t first = std::countr_zero(t.any[n]), last = 63 - std::countl_zero(t.any[n]);
    const int64_t row_begin = first / kRows * kRows;
    const int64_t row_end = HWY_MIN(t.rows, last / kRows * kRows + kRows);
    if (t.all[n] == valid) {
      PanelKeys<false, kOptions>(t, n, row_begin, row_end);
    } else {
      PanelKeys<true, kOptions>(t, n, row_begin, row_end);
    }
  }
}

void TileKeys(Tile& t) {
  ReadBits(t);
  ScaleQueries(t);
  if (t.cap != 0.f || t.bias.data != nullptr || t.alibi_slope != 0.f || t.dbias.kind != BiasGradient::none ||
      t.sink_weight != nullptr) {
    TileKeysWith<true>(t);
  } else {
    TileKeysWith<false>(t);
  }
}

// One strip of NV vectors of dQ: for each register tile of rows, the runs of panels it keeps something of.
template <int NV>
HWY_NOINLINE void DqStrip(const Tile& t, int64_t column) {
  const int64_t panels = (t.keys + kPanel - 1) / kPanel;
  const int64_t cols = t.d_qk - column;
  for (int64_t r = 0; r < t.rows; r += TileRowsAt(r)) {
    const int64_t count = TileRowsAt(r);
    for (int64_t n = 0; n < panels;) {
      if (!Keeps(t.any[n], r, count)) {
        ++n;
        continue;
      }
      int64_t end = n + 1;
      while (end < panels && Keeps(t.any[end], r, count)) ++end;
      const int64_t key = n * kPanel;
      const int64_t depth = HWY_MIN(end * kPanel, t.keys) - key;
      const float* ds = t.p + r * backward::ld_p + key;
      const float* k = t.k + key * t.ld_qk + column;
      float* dq = t.dq + r * t.dq_stride + column;
      if (count == kRows) {
        DqTile<kRows, NV>(ds, k, t.ld_qk, depth, t.rows - r, cols, dq, t.dq_stride);
      } else {
        DqTile<kSmall, NV>(ds, k, t.ld_qk, depth, t.rows - r, cols, dq, t.dq_stride);
      }
      n = end;
    }
  }
}

void TileDq(Tile& t) {
  if (t.bits != nullptr && !t.k_finite) return CarefulDq(t);
  int64_t j = 0;
  for (; j + kLanes < t.d_qk; j += kPanel) DqStrip<2>(t, j);
  if (j < t.d_qk) DqStrip<1>(t, j);
}

}  // namespace backward_tile
}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
