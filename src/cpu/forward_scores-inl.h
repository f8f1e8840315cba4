// From raw products to scores in the units of cpu/score_units.h: softcap, bias, ALiBi, mask (dropped pairs are -inf).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/problem.h"
#include "cpu/forward.h"
#include "cpu/score_units.h"
#include "cpu/storage.h"

#if defined(ANYMASK_CPU_FORWARD_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_FORWARD_SCORES_INL_H_
#undef ANYMASK_CPU_FORWARD_SCORES_INL_H_
#else
#define ANYMASK_CPU_FORWARD_SCORES_INL_H_
#endif

#include "cpu/exp-inl.h"
#include "cpu/gemm-inl.h"
#include "cpu/load-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kPanelsPerTile = static_cast<int>(tile_keys) / kPanel;
inline constexpr uint64_t kPanelBits = (uint64_t{1} << kPanel) - 1;  // kPanel is at most 32

// A tile of a chunk: which of its keys a row keeps.
struct Slot {
  const uint64_t* words = nullptr;  // null: every key inside the sequence
  uint64_t edge = 0;                // keys inside the sequence
  int64_t key = 0;                  // first key

  static Slot of(const KeyTile& tile, int64_t s_kv) {
    Slot slot;
    slot.words = tile.words;
    slot.key = tile.n_block * tile_keys;
    const int64_t inside = s_kv - slot.key;
    slot.edge = inside >= tile_keys ? ~uint64_t{0} : (uint64_t{1} << inside) - 1;
    return slot;
  }
  uint64_t word(int64_t token) const { return words == nullptr ? edge : words[token]; }
};

// Lanes whose bit in `bits` (kLanes of them) is set.
HWY_INLINE hn::Mask<DF> LaneMask(uint32_t bits) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  alignas(64) static constexpr uint32_t kBit[16] = {1u << 0,  1u << 1,  1u << 2,  1u << 3, 1u << 4,  1u << 5,
                                                    1u << 6,  1u << 7,  1u << 8,  1u << 9, 1u << 10, 1u << 11,
                                                    1u << 12, 1u << 13, 1u << 14, 1u << 15};
  return hn::RebindMask(d, hn::TestBit(hn::Set(du, bits), hn::Load(du, kBit)));
}

// The options of a block's scores, resolved to its rows.
class Scores {
 public:
  Scores(const AttentionProblem& problem, const Sequence& sequence, const RowBlock& block)
      : problem_(problem), s_kv_(sequence.s_kv), units_(problem) {
    has_options_ = problem.softcap > 0 || problem.bias.defined() || problem.alibi.defined();
    for (int64_t h = 0, i = 0; h < block.heads; ++h) {
      const int64_t head = block.head + h;
      float slope = 0;
      if (problem.alibi.defined()) {
        const PerHead& alibi = problem.alibi;
        slope = static_cast<float>(
            element(alibi.data, alibi.dtype, block.sequence * alibi.stride_b + head * alibi.stride_h) *
            units_.log_unit);
      }
      for (int64_t t = 0; t < block.tokens; ++t, ++i) {
        const int64_t token = block.token + t;
        token_[i] = static_cast<int32_t>(t);
        if (problem.bias.defined()) bias_at_[i] = problem.bias.offset(block.sequence, head, token, 0);
        slope_[i] = slope;
        position_[i] = token + sequence.s_kv - sequence.s_q;
      }
    }
  }

  bool has_options() const { return has_options_; }
  int32_t token_of(int64_t i) const { return token_[i]; }

  bool natural() const { return units_.natural; }

  // The factor of Q K^T is applied to the queries while packing, or to the products.
  float query_factor(bool scales_queries) const { return scales_queries ? units_.factor : 1.f; }
  float raw_factor(bool scales_queries) const { return scales_queries ? 1.f : units_.factor; }

  // Rows [first, first + rows) of the block against panel p of a slot: s (rows score_stride apart) in place.
  void finish(const Slot& slot, int p, bool whole, int64_t first, int64_t rows, float* s) const {
    const DF d;
    const VF low = hn::Set(d, -std::numeric_limits<float>::infinity());
    const int64_t key = slot.key + p * kPanel;
    for (int64_t r = 0; r < rows; ++r, s += score_stride) {
      const int64_t i = first + r;
      VF x0 = hn::LoadU(d, s), x1 = hn::LoadU(d, s + kLanes);
      if (has_options_) {
        if (problem_.softcap > 0) {
          x0 = hn::Mul(Tanh(d, x0), hn::Set(d, units_.cap));
          x1 = hn::Mul(Tanh(d, x1), hn::Set(d, units_.cap));
        }
        if (problem_.bias.defined()) {
          alignas(64) float bias[kPanel];
          load_bias(bias_at_[i], key, bias);
          x0 = hn::Add(x0, hn::Load(d, bias));
          x1 = hn::Add(x1, hn::Load(d, bias + kLanes));
        }
        if (problem_.alibi.defined()) {
          const VF slope = hn::Set(d, slope_[i]);
          const VF distance = hn::Sub(hn::Set(d, static_cast<float>(position_[i] - key)), hn::Iota(d, 0.f));
          x0 = hn::NegMulAdd(slope, hn::Abs(distance), x0);
          x1 = hn::NegMulAdd(slope, hn::Abs(hn::Sub(distance, hn::Set(d, static_cast<float>(kLanes)))), x1);
        }
      }
      if (!whole) {
        const auto bits = static_cast<uint32_t>(slot.word(token_[i]) >> (p * kPanel) & kPanelBits);
        x0 = hn::IfThenElse(LaneMask(bits & ((1u << kLanes) - 1)), x0, low);
        x1 = hn::IfThenElse(LaneMask(bits >> kLanes), x1, low);
      }
      hn::StoreU(x0, d, s);
      hn::StoreU(x1, d, s + kLanes);
    }
  }

 private:
  // bias[0 .. kPanel) of keys from `key` on; 0 beyond the sequence.
  HWY_INLINE void load_bias(int64_t at, int64_t key, float* HWY_RESTRICT bias) const {
    const DF d;
    const Bias& view = problem_.bias;
    with_type(view.dtype, [&](auto t) {
      using T = decltype(t);
      const T* from = static_cast<const T*>(view.data) + at + key * view.stride_kv;
      if (view.stride_kv == 1 && key + kPanel <= s_kv_) {
        hn::Store(LoadFloats(d, from), d, bias);
        hn::Store(LoadFloats(d, from + kLanes), d, bias + kLanes);
      } else {
        for (int64_t c = 0; c < kPanel; ++c) bias[c] = key + c < s_kv_ ? to_float(from[c * view.stride_kv]) : 0.f;
      }
    });
  }

  const AttentionProblem& problem_;
  const int64_t s_kv_;
  const ScoreUnits units_;
  bool has_options_ = false;
  int32_t token_[max_block_rows];
  int64_t bias_at_[max_block_rows];
  float slope_[max_block_rows];
  int64_t position_[max_block_rows];
};

// A row is done: O / l to out, natural logarithm of the sum to lse. A sink is a logit in the denominator only; a row
// that kept nothing gives 0 and -inf (or its sink).
inline void FinishRow(const AttentionProblem& problem, const Sequence& sequence, int64_t head, int64_t token,
                      const float* o, float max, float sum) {
  const float low = -std::numeric_limits<float>::infinity();
  const ScoreUnits units(problem);
  const bool empty = sum == 0 && max == low;
  float share = empty ? 0.f : 1.f / sum;
  if (problem.sinks.defined()) {
    const PerHead& sinks = problem.sinks;
    const auto sink = static_cast<float>(element(sinks.data, sinks.dtype, head * sinks.stride_h) * units.log_unit);
    const float top = empty || sink > max ? sink : max;
    if (top != low) {
      const float kept = empty ? 0.f : units.exp(max - top);
      sum = sum * kept + units.exp(sink - top);
      share = kept / sum;
      max = top;
    }
  }
  with_type(problem.dtype, [&](auto t) {
    using T = decltype(t);
    T* out = problem.out.at<T>(sequence.batch, sequence.q_begin + token, head);
    if (empty) {
      for (int64_t c = 0; c < problem.d_v; ++c) from_float(0.f, out[c]);
    } else {
      StoreRow(o, problem.d_v, share, out);
    }
  });
  if (problem.lse.defined()) {
    *problem.lse.at<float>(sequence.batch, head, sequence.q_begin + token) =
        sum == 0 ? low
                 : static_cast<float>(static_cast<double>(max) * (units.natural ? 1.0 : ln_2) +
                                      static_cast<double>(std::log2(sum)) * ln_2);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
