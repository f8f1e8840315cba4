// The two products of a block of few rows (decode): nothing is packed, K and V are streamed once, row by row of memory.
//
// With a handful of rows packing costs more than it saves and memory is the limit: S takes one dot product along d for
// each key and row, O += p V adds four keys at a time to all of a row's columns, so that both read whole rows in order.
#include <cstddef>
#include <cstdint>

#include "cpu/forward.h"
#include "cpu/storage.h"

#if defined(ANYMASK_CPU_FORWARD_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_FORWARD_STREAM_INL_H_
#undef ANYMASK_CPU_FORWARD_STREAM_INL_H_
#else
#define ANYMASK_CPU_FORWARD_STREAM_INL_H_
#endif

#include "cpu/gemm-inl.h"
#include "cpu/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Blocks of at most this many rows stream: with more, packing into panels is cheaper than reading queries again for
// each key.
inline constexpr int kStreamRows = 8;

// Keys fetched ahead of their use (4 KB of an fp32 row of 64): rows of a head lie a token apart, which the hardware
// does not foresee. Measured at 32,768 keys: a fifth off the time of 8 query heads over 2, an eighth off that of 2
// over 2.
inline constexpr int64_t kStreamAhead = 16;

// s(r, key) = q_r . k_key for R rows (d apart) and `keys` keys; s rows score_stride apart. d is a multiple of kLanes.
template <int R, class T>
HWY_INLINE void StreamScores(const float* HWY_RESTRICT q, const T* HWY_RESTRICT k, int64_t stride, int64_t keys,
                             int64_t d_qk, float* HWY_RESTRICT s) {
  const DF d;
  for (int64_t key = 0; key < keys; ++key, k += stride) {
    PrefetchRows(k + kStreamAhead * stride, 0, d_qk * static_cast<int64_t>(sizeof(T)), 0, 1);
    VF acc[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) acc[r] = hn::Zero(d);
    for (int64_t c = 0; c < d_qk; c += kLanes) {
      const VF kv = LoadFloats(d, k + c);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) acc[r] = hn::MulAdd(hn::LoadU(d, q + r * d_qk + c), kv, acc[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) s[r * score_stride + key] = hn::GetLane(hn::SumOfLanes(d, acc[r]));
  }
}

// o_r += sum over keys of p(r, key) v_key, in key order; d_v is a multiple of kLanes.
template <int R, class T>
HWY_INLINE void StreamValues(const float* HWY_RESTRICT p, const T* HWY_RESTRICT v, int64_t stride, int64_t keys,
                             int64_t d_v, float* HWY_RESTRICT o, int64_t o_stride) {
  const DF d;
  int64_t key = 0;
  for (; key + 4 <= keys; key += 4, v += 4 * stride) {
    PrefetchRows(v + kStreamAhead * stride, stride * static_cast<int64_t>(sizeof(T)),
                 d_v * static_cast<int64_t>(sizeof(T)), 0, 4);
    for (int64_t c = 0; c < d_v; c += kLanes) {
      const VF v0 = LoadFloats(d, v + c), v1 = LoadFloats(d, v + stride + c);
      const VF v2 = LoadFloats(d, v + 2 * stride + c), v3 = LoadFloats(d, v + 3 * stride + c);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const float* pr = p + r * score_stride + key;
        VF acc = hn::LoadU(d, o + r * o_stride + c);
        acc = hn::MulAdd(hn::Set(d, pr[0]), v0, acc);
        acc = hn::MulAdd(hn::Set(d, pr[1]), v1, acc);
        acc = hn::MulAdd(hn::Set(d, pr[2]), v2, acc);
        acc = hn::MulAdd(hn::Set(d, pr[3]), v3, acc);
        hn::StoreU(acc, d, o + r * o_stride + c);
      }
    }
  }
  for (; key < keys; ++key, v += stride) {
    for (int64_t c = 0; c < d_v; c += kLanes) {
      const VF v0 = LoadFloats(d, v + c);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        float* at = o + r * o_stride + c;
        hn::StoreU(hn::MulAdd(hn::Set(d, p[r * score_stride + key]), v0, hn::LoadU(d, at)), d, at);
      }
    }
  }
}

// f(std::integral_constant<int, R>, first row) for stretches of 4, 2 and 1 rows.
template <class F>
HWY_INLINE void ForRowsOfFour(int64_t rows, const F& f) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) f(std::integral_constant<int, 4>(), r);
  for (; r + 2 <= rows; r += 2) f(std::integral_constant<int, 2>(), r);
  if (r < rows) f(std::integral_constant<int, 1>(), r);
}

template <class T>
struct StreamProducts {
  using Packed = const T;
  using Query = float;
  static constexpr bool kScalesQueries = true;
  static constexpr bool kStreams = true;
  static constexpr int kGroup = kStreamRows;  // all rows: K and V are read once
  struct Segment {
    const T* v;
    int32_t column, count;
    int32_t inside;  // keys of `count` that lie in the sequence: the others are never read
  };

  static int64_t QueryElements(int64_t d_qk) { return kStreamRows * d_qk; }
  static const float* QueriesOf(int64_t, const float* q, int64_t) { return q; }

  // [rows][d]
  static void PackQueries(const AttentionProblem& problem, const Sequence& sequence, const RowBlock& block,
                          float factor, float* to) {
    for (int64_t i = 0; i < block.rows(); ++i) {
      const int64_t token = sequence.q_begin + block.token + i % block.tokens;
      LoadRow(problem.q.at<const T>(sequence.batch, token, block.head + i / block.tokens), problem.d_qk, factor,
              to + i * problem.d_qk);
    }
  }

  static void Scores(const AttentionProblem& problem, const float* q, int64_t rows, const T* k, int64_t keys,
                     float* s) {
    ForRowsOfFour(rows, [&](auto r_count, int64_t r) {
      StreamScores<decltype(r_count)::value>(q + r * problem.d_qk, k, problem.k.stride_s, keys, problem.d_qk,
                                             s + r * score_stride);
    });
  }

  static void Narrow(float*, int32_t, int32_t) {}

  static void Accumulate(const AttentionProblem& problem, const float* p, int64_t rows, const Segment* segments,
                         int32_t num_segments, const float* alpha, float* o, int64_t o_stride) {
    const DF d;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < problem.d_v; c += kLanes) {
        float* at = o + r * o_stride + c;
        hn::Store(hn::Mul(hn::Set(d, alpha[r]), hn::Load(d, at)), d, at);
      }
    }
    for (int32_t n = 0; n < num_segments; ++n) {
      ForRowsOfFour(rows, [&](auto r_count, int64_t r) {
        StreamValues<decltype(r_count)::value>(p + r * score_stride + segments[n].column, segments[n].v,
                                               problem.v.stride_s, segments[n].inside, problem.d_v, o + r * o_stride,
                                               o_stride);
      });
    }
  }

  static float Probability(const float* row, int64_t column) { return row[column]; }
  static float Value(const AttentionProblem& problem, const T* v, int64_t key, int64_t c) {
    return to_float(v[key * problem.v.stride_s + c]);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
