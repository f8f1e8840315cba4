// One block of rows against its tiles of keys: the forward kernel.
//
// Few rows that nobody packed for are streamed instead (forward_stream-inl.h); all else is the same.
//
//   q   the block's queries, times the factor that makes scores powers of two
//   s   [kGroup][score_stride]: scores of one group of rows for a chunk of keys, then probabilities, in place
//   o   [64][d_v up to kPanel]: the running output
//
// A chunk of K and V (128 KB at d = 64) stays in the second-level cache while the groups pass by; a group's scores (6
// KB with AVX2) stay in the first while K and V stream through: measured as fast as the other order, and softmax and
// the second product find their operands close.
//
// A tile is cut into micro-tiles of kGroup rows x kPanel keys. From the tile's words each is EMPTY (no product at all),
// WHOLE (plain) or MIXED (masked by word after the same product): what a row computes depends on the bits alone, not on
// how the mask was said. MIXED tiles multiply dropped values by an exact 0; should that have made a NaN (a dropped V of
// inf or NaN), the block is computed again with those tiles done key by key, so that a dropped key never matters.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/bf16_dot.h"
#include "cpu/forward.h"

#if defined(ANYMASK_CPU_FORWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_FORWARD_BLOCK_INL_H_
#undef ANYMASK_CPU_FORWARD_BLOCK_INL_H_
#else
#define ANYMASK_CPU_FORWARD_BLOCK_INL_H_
#endif

#include "cpu/exp-inl.h"
#include "cpu/forward_products-inl.h"
#include "cpu/forward_scores-inl.h"
#include "cpu/forward_stream-inl.h"
#include "cpu/gemm-inl.h"
#include "cpu/load-inl.h"
#include "cpu/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Running statistics of a group's rows, in the scores' units: whole vectors of rows.
struct GroupStats {
  static constexpr int64_t kRowsUp = 16;
  alignas(64) float max[kRowsUp];
  alignas(64) float base[kRowsUp];   // max, or 0 while a row has seen nothing
  alignas(64) float alpha[kRowsUp];  // what the chunk multiplies the past by
  alignas(64) float sum[kRowsUp * kLanes];
};

// The largest lane. Highway's emulated target starts from the lowest finite value, and -inf in all lanes must stay
// -inf.
HWY_INLINE float LargestLane(VF x) {
  const DF d;
#if HWY_TARGET == HWY_EMU128
  alignas(64) float lanes[kLanes];
  hn::Store(x, d, lanes);
  return *std::max_element(lanes, lanes + kLanes);
#else
  return hn::GetLane(hn::MaxOfLanes(d, x));
#endif
}

// The tiles of a chunk, and what one group of rows keeps of them.
template <class P>
struct Chunk {
  int64_t num_slots = 0;
  Slot slots[chunk_tiles];
  const typename P::Packed* k[chunk_tiles];
  const typename P::Packed* v[chunk_tiles];
  int64_t v_key = 0;            // elements from a key's values to the next
  uint32_t live[chunk_tiles];   // bit p: panel p of the slot keeps something
  uint32_t whole[chunk_tiles];  // bit p: it keeps everything
  typename P::Segment segments[chunk_tiles * ((kPanelsPerTile + 1) / 2)];
  int32_t num_segments = 0;
  bool mixed = false;
};

template <class P>
class Block {
  using Element = std::remove_const_t<typename P::Packed>;
  static constexpr int64_t kGroup = P::kGroup;
  static_assert(kGroup <= GroupStats::kRowsUp && GroupStats::kRowsUp % kLanes == 0);

 public:
  Block(const BlockTask& task, ForwardScratch& scratch)
      : task_(task),
        problem_(*task.problem),
        sequence_(problem_.sequences[static_cast<size_t>(task.block.sequence)]),
        rows_(task.block.rows()),
        groups_((rows_ + kGroup - 1) / kGroup),
        o_stride_((problem_.d_v + kPanel - 1) / kPanel * kPanel),
        scores_(problem_, sequence_, task.block),
        q_(scratch.q.get<typename P::Query>(P::QueryElements(problem_.d_qk))),
        s_(scratch.s.get<float>(kGroup * score_stride)),
        o_(scratch.o.get<float>(padded_block_rows * o_stride_)) {
    chunk_.v_key = P::kStreams ? problem_.v.stride_s : kPanel;
    if (!P::kStreams && task.packed.k == nullptr) {
      own_k_ = scratch.k.get<Element>(chunk_tiles * tile_keys * problem_.d_qk);
      own_v_ = scratch.v.get<Element>(chunk_tiles * tile_keys * o_stride_);
    }
  }

  void run() {
    prefetch<false>(problem_.q, problem_.d_qk);
    P::PackQueries(problem_, sequence_, task_.block, scores_.query_factor(P::kScalesQueries), q_);
    pass(false);
    if (any_mixed_ && has_nan()) pass(true);
    if (task_.partial.o != nullptr) {
      leave_partial();
    } else {
      finish();
    }
  }

 private:
  int64_t rows_of(int64_t g) const { return HWY_MIN(kGroup, rows_ - g * kGroup); }

  void pass(bool exact) {
    const DF d;
    for (int64_t g = 0; g < groups_; ++g) {
      GroupStats& stats = stats_[g];
      for (float& max : stats.max) max = -std::numeric_limits<float>::infinity();
      for (float& base : stats.base) base = -std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < kGroup; ++i) hn::Store(hn::Zero(d), d, stats.sum + i * kLanes);
    }
    std::memset(o_, 0, static_cast<size_t>(groups_ * kGroup * o_stride_) * sizeof(float));
    for (int64_t first = 0; first < task_.num_tiles; first += chunk_tiles) {
      gather(first, HWY_MIN(task_.num_tiles - first, chunk_tiles));
      if (first + chunk_tiles >= task_.num_tiles && task_.partial.o == nullptr)
        prefetch<true>(problem_.out, problem_.d_v);
      for (int64_t g = 0; g < groups_; ++g) {
        if (!select(g)) continue;
        score(g);
        if (scores_.natural()) {
          soften<true>(g);
        } else {
          soften<false>(g);
        }
        accumulate(g, exact);
      }
    }
  }

  // The chunk's tiles and their panels.
  void gather(int64_t first, int64_t count) {
    chunk_.num_slots = count;
    for (int64_t j = 0; j < count; ++j) {
      const KeyTile& tile = task_.tiles[first + j];
      chunk_.slots[j] = Slot::of(tile, sequence_.s_kv);
      const int64_t k_elements = tile_keys * problem_.d_qk, v_elements = tile_keys * o_stride_;
      if constexpr (P::kStreams) {
        const int64_t key = sequence_.kv_begin + chunk_.slots[j].key;
        chunk_.k[j] = problem_.k.at<typename P::Packed>(sequence_.batch, key, task_.block.kv_head);
        chunk_.v[j] = problem_.v.at<typename P::Packed>(sequence_.batch, key, task_.block.kv_head);
      } else if (own_k_ == nullptr) {
        chunk_.k[j] = static_cast<const typename P::Packed*>(task_.packed.k) +
                      (tile.n_block - task_.packed.first_tile) * k_elements;
        chunk_.v[j] = static_cast<const typename P::Packed*>(task_.packed.v) +
                      (tile.n_block - task_.packed.first_tile) * v_elements;
      } else {
        P::PackTile(problem_, sequence_, task_.block.kv_head, tile.n_block, own_k_ + j * k_elements,
                    own_v_ + j * v_elements);
        chunk_.k[j] = own_k_ + j * k_elements;
        chunk_.v[j] = own_v_ + j * v_elements;
      }
    }
  }

  // The state of each of a group's micro-tiles and the stretches of keys it multiplies; false when there are none.
  bool select(int64_t g) {
    chunk_.num_segments = 0;
    chunk_.mixed = false;
    for (int64_t j = 0; j < chunk_.num_slots; ++j) {
      const Slot& slot = chunk_.slots[j];
      uint64_t any = slot.edge, all = slot.edge;
      if (slot.words != nullptr) {
        any = 0;
        all = ~uint64_t{0};
        for (int64_t i = g * kGroup; i < g * kGroup + rows_of(g); ++i) {
          const uint64_t word = slot.words[scores_.token_of(i)];
          any |= word;
          all &= word;
        }
      }
      uint32_t live = 0, whole = 0;
      for (int p = 0; p < kPanelsPerTile; ++p) {
        if (((any >> (p * kPanel)) & kPanelBits) != 0) live |= 1u << p;
        if (((all >> (p * kPanel)) & kPanelBits) == kPanelBits) whole |= 1u << p;
      }
      chunk_.live[j] = live;
      chunk_.whole[j] = whole;
      chunk_.mixed = chunk_.mixed || live != whole;
      for (int p = 0; p < kPanelsPerTile;) {
        if (!(live >> p & 1)) {
          ++p;
          continue;
        }
        int end = p + 1;
        while (end < kPanelsPerTile && (live >> end & 1)) ++end;
        typename P::Segment& segment = chunk_.segments[chunk_.num_segments++];
        segment.v = chunk_.v[j] + p * kPanel * chunk_.v_key;
        segment.column = static_cast<int32_t>(j * tile_keys + p * kPanel);
        segment.count = (end - p) * kPanel;
        if constexpr (P::kStreams) {
          segment.inside =
              static_cast<int32_t>(HWY_MIN(int64_t{segment.count}, sequence_.s_kv - slot.key - p * kPanel));
        }
        p = end;
      }
    }
    any_mixed_ = any_mixed_ || chunk_.mixed;
    return chunk_.num_segments > 0;
  }

  // S = Q K^T, options, mask.
  void score(int64_t g) {
    const bool plain_scores = !P::kStreams && !scores_.has_options();
    const typename P::Query* q = P::QueriesOf(g, q_, problem_.d_qk);
    for (int64_t j = 0; j < chunk_.num_slots; ++j) {
      if constexpr (P::kStreams) {
        // Whole tiles of natural rows, then what the micro-tiles keep of them.
        const int64_t keys = HWY_MIN(tile_keys, sequence_.s_kv - chunk_.slots[j].key);
        P::Scores(problem_, q, rows_, chunk_.k[j], keys, s_ + j * tile_keys);
      }
      for (int p = 0; p < kPanelsPerTile; ++p) {
        if (!(chunk_.live[j] >> p & 1)) continue;
        float* s = s_ + j * tile_keys + p * kPanel;
        const bool whole = chunk_.whole[j] >> p & 1;
        if constexpr (!P::kStreams) {
          P::Scores(rows_of(g), q, chunk_.k[j] + p * kPanel * problem_.d_qk, problem_.d_qk,
                    scores_.raw_factor(P::kScalesQueries), s);
        }
        if (!whole || !plain_scores) scores_.finish(chunk_.slots[j], p, whole, g * kGroup, rows_of(g), s);
      }
    }
  }

  // m' = max(m, max S); alpha = exp(m - m'); P = exp(S - m'); l = alpha l + rowsum P.
  template <bool kNatural>
  void soften(int64_t g) {
    const DF d;
    const auto exp = [d](VF x) { return Exp2(d, kNatural ? hn::Mul(x, hn::Set(d, static_cast<float>(log2_e))) : x); };
    const VF low = hn::Set(d, -std::numeric_limits<float>::infinity());
    GroupStats& stats = stats_[g];
    for (int64_t i = 0; i < rows_of(g); ++i) {
      const float* row = s_ + i * score_stride;
      VF top0 = low, top1 = low;
      for (int32_t n = 0; n < chunk_.num_segments; ++n) {
        const float* s = row + chunk_.segments[n].column;
        for (int32_t c = 0; c < chunk_.segments[n].count; c += kPanel) {
          top0 = hn::Max(hn::LoadU(d, s + c), top0);
          top1 = hn::Max(hn::LoadU(d, s + c + kLanes), top1);
        }
      }
      stats.base[i] = LargestLane(hn::Max(top0, top1));
    }
    for (int64_t i = 0; i < kGroup; i += kLanes) {
      const VF past = hn::Load(d, stats.max + i);
      const VF now = hn::Max(past, hn::Load(d, stats.base + i));
      const VF base = hn::IfThenZeroElse(hn::Eq(now, low), now);
      hn::Store(exp(hn::Sub(past, base)), d, stats.alpha + i);
      hn::Store(base, d, stats.base + i);
      hn::Store(now, d, stats.max + i);
    }
    for (int64_t i = 0; i < rows_of(g); ++i) {
      const VF base = hn::Set(d, stats.base[i]);
      VF sum = hn::Mul(hn::Set(d, stats.alpha[i]), hn::Load(d, stats.sum + i * kLanes));
      float* row = s_ + i * score_stride;
      for (int32_t n = 0; n < chunk_.num_segments; ++n) {
        float* HWY_RESTRICT s = row + chunk_.segments[n].column;
        const int32_t count = chunk_.segments[n].count;
        for (int32_t c = 0; c < count; c += kPanel) {
          const VF p0 = exp(hn::Sub(hn::LoadU(d, s + c), base));
          const VF p1 = exp(hn::Sub(hn::LoadU(d, s + c + kLanes), base));
          hn::StoreU(p0, d, s + c);
          hn::StoreU(p1, d, s + c + kLanes);
          sum = hn::Add(sum, hn::Add(p0, p1));
        }
        P::Narrow(row, chunk_.segments[n].column, count);
      }
      hn::Store(sum, d, stats.sum + i * kLanes);
    }
  }

  // O = alpha O + P V.
  void accumulate(int64_t g, bool exact) {
    const float* alpha = stats_[g].alpha;
    float* o = o_ + g * kGroup * o_stride_;
    if (exact && chunk_.mixed) {
      for (int64_t i = 0; i < rows_of(g); ++i) accumulate_exactly(g, i);
    } else if constexpr (P::kStreams) {
      P::Accumulate(problem_, s_, rows_, chunk_.segments, chunk_.num_segments, alpha, o, o_stride_);
    } else {
      for (int64_t column = 0; column < problem_.d_v; column += kPanel) {
        P::Accumulate(rows_of(g), s_, chunk_.segments, chunk_.num_segments, column * tile_keys,
                      problem_.d_v - column <= kLanes, alpha, o + column, o_stride_);
      }
    }
  }

  // The same for one row, key by key, leaving out what is dropped.
  void accumulate_exactly(int64_t g, int64_t i) {
    float* o = o_ + (g * kGroup + i) * o_stride_;
    for (int64_t c = 0; c < o_stride_; ++c) o[c] *= stats_[g].alpha[i];
    for (int64_t j = 0; j < chunk_.num_slots; ++j) {
      const Slot& slot = chunk_.slots[j];
      const uint64_t word = slot.word(scores_.token_of(g * kGroup + i));
      for (int64_t key = 0; key < tile_keys; ++key) {
        if (!(chunk_.live[j] >> (key / kPanel) & 1) || !(word >> key & 1)) continue;
        const float p = P::Probability(s_ + i * score_stride, j * tile_keys + key);
        for (int64_t c = 0; c < problem_.d_v; ++c) o[c] = std::fma(p, P::Value(problem_, chunk_.v[j], key, c), o[c]);
      }
    }
  }

  // Whether a row of o holds a NaN (or an infinity, which 0 * x shows alike: the second pass then only repeats the
  // first).
  bool has_nan() const {
    const DF d;
    VF sum = hn::Zero(d);
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t c = 0; c < problem_.d_v; c += kLanes)
        sum = hn::MulAdd(hn::Zero(d), hn::Load(d, o_ + i * o_stride_ + c), sum);
    }
    const float total = hn::GetLane(hn::SumOfLanes(d, sum));
    return total != total;
  }

  float row_max(int64_t i) const { return stats_[i / kGroup].max[i % kGroup]; }
  float row_sum(int64_t i) const {
    const DF d;
    return hn::GetLane(hn::SumOfLanes(d, hn::Load(d, stats_[i / kGroup].sum + i % kGroup * kLanes)));
  }

  // Fetches the block's rows of q, or of the result, which are written next.
  template <bool kToWrite>
  void prefetch(const Tensor4& t, int64_t d) const {
    const RowBlock& block = task_.block;
    const int64_t size = size_of(problem_.dtype);
    for (int64_t h = 0; h < block.heads; ++h) {
      const int64_t at =
          sequence_.batch * t.stride_b + (sequence_.q_begin + block.token) * t.stride_s + (block.head + h) * t.stride_h;
      PrefetchRows<kToWrite>(static_cast<const char*>(t.data) + at * size, t.stride_s * size, d * size, 0,
                             block.tokens);
    }
  }

  void finish() {
    for (int64_t h = 0, i = 0; h < task_.block.heads; ++h) {
      for (int64_t t = 0; t < task_.block.tokens; ++t, ++i) {
        FinishRow(problem_, sequence_, task_.block.head + h, task_.block.token + t, o_ + i * o_stride_, row_max(i),
                  row_sum(i));
      }
    }
  }

  void leave_partial() {
    for (int64_t i = 0; i < rows_; ++i) {
      std::memcpy(task_.partial.o + i * problem_.d_v, o_ + i * o_stride_,
                  static_cast<size_t>(problem_.d_v) * sizeof(float));
      task_.partial.max[i] = row_max(i);
      task_.partial.sum[i] = row_sum(i);
    }
  }

  const BlockTask& task_;
  const AttentionProblem& problem_;
  const Sequence& sequence_;
  const int64_t rows_, groups_, o_stride_;
  const Scores scores_;
  typename P::Query* const q_;
  float* const s_;
  float* const o_;
  Element* own_k_ = nullptr;  // where the block packs for itself
  Element* own_v_ = nullptr;
  bool any_mixed_ = false;
  GroupStats stats_[(max_block_rows + kGroup - 1) / kGroup];
  Chunk<P> chunk_;
};

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
