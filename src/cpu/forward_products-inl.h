// The two products of a micro-tile and the packing they want: in fp32 (any input type, widened while packing), and,
// with AVX-512 BF16, in pairs of bf16 summed in fp32.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/bf16_dot.h"
#include "cpu/forward.h"

#if defined(ANYMASK_CPU_FORWARD_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_FORWARD_PRODUCTS_INL_H_
#undef ANYMASK_CPU_FORWARD_PRODUCTS_INL_H_
#else
#define ANYMASK_CPU_FORWARD_PRODUCTS_INL_H_
#endif

#include "cpu/forward_scores-inl.h"
#include "cpu/gemm-inl.h"
#include "cpu/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// f(row, rows, first element in memory) for each stretch of rows [begin, end) of the block that lies in one head; rows
// are counted from begin.
template <class T, class F>
HWY_INLINE void ForStretches(const AttentionProblem& problem, const Sequence& sequence, const RowBlock& block,
                             int64_t begin, int64_t end, const F& f) {
  for (int64_t i = begin; i < end;) {
    const int64_t head = i / block.tokens, token = i % block.tokens;
    const int64_t rows = HWY_MIN(end - i, block.tokens - token);
    f(i - begin, rows,
      problem.q.at<const T>(sequence.batch, sequence.q_begin + block.token + token, block.head + head));
    i += rows;
  }
}

// Fetches the tile of keys that begins at `key`, if there is one: most likely the next.
inline void PrefetchKeys(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head, int64_t key) {
  const int64_t keys = HWY_MIN(tile_keys, sequence.s_kv - key), size = size_of(problem.dtype);
  const auto fetch = [&](const Tensor4& t, int64_t d) {
    const int64_t at = sequence.batch * t.stride_b + (sequence.kv_begin + key) * t.stride_s + kv_head * t.stride_h;
    PrefetchRows(static_cast<const char*>(t.data) + at * size, t.stride_s * size, d * size, 0, keys);
  };
  fetch(problem.k, problem.d_qk);
  fetch(problem.v, problem.d_v);
}

struct Fp32Products {
  using Packed = float;
  using Query = float;
  static constexpr bool kStreams = false;
  static constexpr bool kScalesQueries = true;
  static constexpr int kGroup = kRows;
  // What is left of 64 rows: eight sums still keep both multipliers busy.
  static constexpr int kFewRows = 4;
  // Rows are read by broadcast where they lie. As far apart as the widest heads ask, so that one constant serves all,
  // and an odd number of cache lines, so that rows do not fall into the same cache sets.
  static constexpr int64_t kQueryStride = 256 + 16;
  struct Segment {
    const float* v;  // of the first panel
    int32_t column, count;
  };

  static int64_t QueryElements(int64_t) { return padded_block_rows * kQueryStride; }
  static const float* QueriesOf(int64_t group, const float* q, int64_t) { return q + group * kRows * kQueryStride; }

  // [rows][kQueryStride]; rows beyond the block are zeros.
  static void PackQueries(const AttentionProblem& problem, const Sequence& sequence, const RowBlock& block,
                          float factor, float* to) {
    with_type(problem.dtype, [&](auto t) {
      using T = decltype(t);
      const int64_t rows = block.rows(), padded = (rows + kRows - 1) / kRows * kRows;
      ForStretches<T>(problem, sequence, block, 0, rows, [&](int64_t row, int64_t count, const T* q) {
        for (int64_t i = 0; i < count; ++i) {
          LoadRow(q + i * problem.q.stride_s, problem.d_qk, factor, to + (row + i) * kQueryStride);
        }
      });
      for (int64_t i = rows; i < padded; ++i) {
        std::memset(to + i * kQueryStride, 0, static_cast<size_t>(problem.d_qk) * sizeof(float));
      }
    });
  }

  // K: [64 / kPanel][d][kPanel]; V: [d_v / kPanel][64][kPanel]. Keys beyond the sequence are zeros.
  static void PackTile(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head, int32_t n_block,
                       float* k, float* v) {
    const int64_t key = n_block * tile_keys, keys = HWY_MIN(tile_keys, sequence.s_kv - key);
    PrefetchKeys(problem, sequence, kv_head, key + tile_keys);
    with_type(problem.dtype, [&](auto t) {
      using T = decltype(t);
      PackTransposed(problem.k.at<const T>(sequence.batch, sequence.kv_begin + key, kv_head), problem.k.stride_s, keys,
                     problem.d_qk, (keys + kPanel - 1) / kPanel * kPanel, k);
      PackPanels(problem.v.at<const T>(sequence.batch, sequence.kv_begin + key, kv_head), problem.v.stride_s, keys,
                 problem.d_v, tile_keys, v);
    });
  }

  // s = Q K^T
  template <int R>
  static HWY_INLINE void ScoresOf(const float* q, const float* k, int64_t d_qk, float* s) {
    GemmTile<R, 2, false>(q, std::integral_constant<int64_t, kQueryStride>(), std::integral_constant<int64_t, 1>(), k,
                          int64_t{kPanel}, d_qk, s, score_stride);
  }
  static HWY_INLINE void Scores(int64_t rows, const float* q, const float* k, int64_t d_qk, float, float* s) {
    if (rows > kFewRows) {
      ScoresOf<kRows>(q, k, d_qk, s);
    } else {
      ScoresOf<kFewRows>(q, k, d_qk, s);
    }
  }

  static void Narrow(float*, int32_t, int32_t) {}

  template <int R, int NV>
  static HWY_INLINE void AccumulatePanel(const float* p, const Segment* segments, int32_t num_segments,
                                         int64_t v_offset, const float* alpha, float* o, int64_t o_stride) {
    const DF d;
    VF acc[R][NV];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const VF a = hn::Set(d, alpha[r]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::Mul(a, hn::Load(d, o + r * o_stride + v * kLanes));
    }
    for (int32_t n = 0; n < num_segments; ++n) {
      TileFma<R, NV>(p + segments[n].column, std::integral_constant<int64_t, score_stride>(),
                     std::integral_constant<int64_t, 1>(), segments[n].v + v_offset, int64_t{kPanel}, segments[n].count,
                     acc);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) hn::Store(acc[r][v], d, o + r * o_stride + v * kLanes);
    }
  }

  static void Accumulate(int64_t rows, const float* p, const Segment* segments, int32_t num_segments, int64_t v_offset,
                         bool one_vector, const float* alpha, float* o, int64_t o_stride) {
    if (one_vector) {
      AccumulatePanel<kRows, 1>(p, segments, num_segments, v_offset, alpha, o, o_stride);
    } else if (rows > kFewRows) {
      AccumulatePanel<kRows, 2>(p, segments, num_segments, v_offset, alpha, o, o_stride);
    } else {
      AccumulatePanel<kFewRows, 2>(p, segments, num_segments, v_offset, alpha, o, o_stride);
    }
  }

  static float Probability(const float* row, int64_t column) { return row[column]; }
  static float Value(const AttentionProblem&, const float* v, int64_t key, int64_t c) {
    return v[(c / kPanel) * tile_keys * kPanel + key * kPanel + c % kPanel];
  }
};

#if HWY_TARGET == HWY_AVX3
struct Bf16Products {
  using Packed = uint16_t;
  using Query = uint16_t;
  static constexpr bool kStreams = false;
  using Segment = bf16_dot::Segment;
  static constexpr bool kScalesQueries = false;
  static constexpr int kGroup = kRows;
  static_assert(bf16_dot::rows == kRows && bf16_dot::panel == kPanel);

  static int64_t QueryElements(int64_t d_qk) { return padded_block_rows * d_qk; }
  static const uint16_t* QueriesOf(int64_t group, const uint16_t* q, int64_t d_qk) { return q + group * kRows * d_qk; }

  // A row of d bf16 is a row of d / 2 pairs: both operands of Q K^T are transposed pair by pair.
  static void PackQueries(const AttentionProblem& problem, const Sequence& sequence, const RowBlock& block, float,
                          uint16_t* to) {
    const int64_t pairs = problem.d_qk / 2;
    for (int64_t first = 0; first < block.rows(); first += kRows, to += kRows * problem.d_qk) {
      const int64_t end = HWY_MIN(first + kRows, block.rows());
      ForStretches<Bf16>(problem, sequence, block, first, end, [&](int64_t row, int64_t rows, const Bf16* q) {
        const bool last = first + row + rows == block.rows();
        TransposeInto(reinterpret_cast<const Pair32*>(q), problem.q.stride_s / 2, rows, pairs,
                      last ? kRows - row : rows, reinterpret_cast<float*>(to) + row, int64_t{kRows});
      });
    }
  }

  static void PackTile(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head, int32_t n_block,
                       uint16_t* k, uint16_t* v) {
    const int64_t key = n_block * tile_keys, keys = HWY_MIN(tile_keys, sequence.s_kv - key);
    PrefetchKeys(problem, sequence, kv_head, key + tile_keys);
    const Bf16* from = problem.k.at<const Bf16>(sequence.batch, sequence.kv_begin + key, kv_head);
    PackTransposed(reinterpret_cast<const Pair32*>(from), problem.k.stride_s / 2, keys, problem.d_qk / 2,
                   (keys + kPanel - 1) / kPanel * kPanel, reinterpret_cast<float*>(k));
    InterleaveValues(problem.v.at<const Bf16>(sequence.batch, sequence.kv_begin + key, kv_head), problem.v.stride_s,
                     keys, problem.d_v, v);
  }

  // [d_v / panel][32 pairs of keys][panel][2]
  static void InterleaveValues(const Bf16* v, int64_t stride, int64_t keys, int64_t d_v, uint16_t* to) {
    const hn::ScalableTag<uint32_t> d;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    for (int64_t pair = 0; pair < tile_keys / 2; ++pair) {
      const Bf16* even = v + (2 * pair < keys ? 2 * pair * stride : 0);
      const Bf16* odd = v + (2 * pair + 1 < keys ? (2 * pair + 1) * stride : 0);
      const bool has_even = 2 * pair < keys, has_odd = 2 * pair + 1 < keys;
      for (int64_t c = 0; c < d_v; c += kLanes) {
        uint16_t* out = to + (c / kPanel) * tile_keys * kPanel + pair * 2 * kPanel + 2 * (c % kPanel);
        if (c + kLanes <= d_v && has_odd) {
          const auto low = hn::PromoteTo(d, hn::LoadU(d16, &even[c].bits)),
                     high = hn::PromoteTo(d, hn::LoadU(d16, &odd[c].bits));
          hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d, reinterpret_cast<uint32_t*>(out));
        } else {
          for (int64_t j = 0; j < kLanes; ++j) {
            const bool inside = c + j < d_v;
            out[2 * j] = inside && has_even ? even[c + j].bits : uint16_t{0};
            out[2 * j + 1] = inside && has_odd ? odd[c + j].bits : uint16_t{0};
          }
        }
      }
    }
  }

  static void Scores(int64_t rows, const uint16_t* q, const uint16_t* k, int64_t d_qk, float factor, float* s) {
    bf16_dot::scores(rows, q, k, d_qk / 2, factor, s);
  }

  // A row's probabilities shrink in place: bf16 c of the row lies before float c, which has been read by then.
  static void Narrow(float* row, int32_t column, int32_t count) {
    bf16_dot::narrow(row + column, count, reinterpret_cast<uint16_t*>(row) + column);
  }

  static void Accumulate(int64_t rows, const float* p, const Segment* segments, int32_t num_segments, int64_t v_offset,
                         bool one_vector, const float* alpha, float* o, int64_t o_stride) {
    bf16_dot::accumulate(rows, reinterpret_cast<const uint16_t*>(p), segments, num_segments, v_offset,
                         one_vector ? kLanes : kPanel, alpha, o, o_stride);
  }

  static float Probability(const float* row, int64_t column) {
    uint16_t bits;
    std::memcpy(&bits, reinterpret_cast<const char*>(row) + 2 * column, sizeof(bits));
    return bf16_to_f32(bits);
  }
  static float Value(const AttentionProblem&, const uint16_t* v, int64_t key, int64_t c) {
    return bf16_to_f32(v[(c / kPanel) * tile_keys * kPanel + (key / 2) * 2 * kPanel + 2 * (c % kPanel) + key % 2]);
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
