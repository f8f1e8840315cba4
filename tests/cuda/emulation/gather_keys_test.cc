// The kernels around a call over gathered keys, from their own source on the emulator, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/emulation/block_keywords.h"
// Keywords come first: kernels are written with them.
#include "cuda/emulation/launches.h"
#include "cuda/kernels/gather_keys.cuh"
#include "mask/select.h"

namespace anymask {
namespace {

// A selection of some planes, K, V and a bias around it; every number of a result begins as a NaN or out of range.
class Gather {
 public:
  explicit Gather(uint32_t seed) : rng_(seed) {
    type_ = std::array{DType::f16, DType::bf16, DType::f32}[pick(0, 2)];
    packed_ = pick(0, 1) == 1;
    h_kv_ = pick(1, 3);
    h_q_ = h_kv_ * pick(1, 3);
    sequences_ = pick(1, 3);
    plane_heads_ = pick(0, 1) == 1 ? h_q_ : 1;
    apart_ = plane_heads_ == 1 ? 1 : pick(0, 1) == 1 ? h_q_ : h_kv_;
    d_qk_ = pick(0, 1) == 1 ? 8 * pick(1, 4) : pick(1, 40);
    d_v_ = 8 * pick(1, 17);
    make_planes();
    make_sequences();
    make_tensors();
  }

  void run() {
    const auto launch = [&](dim3 grid, auto&& kernel, unsigned threads = gather::threads) {
      emulation::run({.grid = grid, .threads = threads, .schedule = emulation::schedule}, kernel);
    };
    const auto u = [](int64_t n) { return static_cast<unsigned>(n); };
    launch(
        dim3(u((most_ - 1) / p_.stretch + 1), u(pick(1, planes()))), [&] { gather::gather_list(p_); },
        gather::list_threads);
    launch(dim3(u((p_.width - 1) / gather::warps + 1), u(p_.heads), u(pick(1, sequences_))),
           [&] { gather::gather_rows(p_); });
    launch(dim3(u((p_.width - 1) / gather::threads + 1), u(p_.bias_heads), u(pick(1, sequences_))),
           [&] { gather::gather_bias(p_); });
    launch(dim3(u(pick(1, 2)), u(pick(1, planes()))), [&] { gather::gather_ends(p_); });
    launch(dim3(u(pick(1, 40)), u(h_kv_), u(pick(1, sequences_))), [&] { gather::scatter_rows(p_); });
    launch(dim3(u((most_ - 1) / gather::threads + 1), u(p_.dbias_shape[1]), u(p_.dbias_shape[0])),
           [&] { gather::scatter_bias(p_); });
  }

  void check() {
    for (int32_t p = 0; p < planes(); ++p) check_plane(static_cast<size_t>(p));
    for (int32_t s = 0; s < sequences_; ++s) check_sequence(static_cast<size_t>(s));
    check_dbias();
  }

 private:
  int32_t pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng_); }
  int32_t planes() const { return sequences_ * apart_; }
  size_t plane_of(int32_t s, int32_t head_q) const {
    return static_cast<size_t>(s * apart_ + head_q / (h_q_ / apart_));
  }

  void make_planes() {
    for (int32_t s = 0; s < sequences_; ++s)
      s_kv_.push_back(packed_ || s == 0 ? pick(1, pick(0, 5) == 0 ? 5000 : 200) : s_kv_[0]);
    most_ = *std::max_element(s_kv_.begin(), s_kv_.end());
    rows_.resize(static_cast<size_t>(planes()));
    int32_t window = 0;
    for (int32_t p = 0; p < planes(); ++p) {
      const int32_t keys = s_kv_[static_cast<size_t>(p / apart_)], step = pick(0, 3) == 0 ? 2 : 1;
      if (p % apart_ == 0) window = std::min(keys, s_kv_[0] / pick(1, 5) + 1);  // of a sequence
      const int32_t lines = pick(0, 2) == 0 ? 1 : pick(1, 600);
      auto& values = values_.emplace_back(static_cast<size_t>(keys * step * 2) + 16);  // 16-bit halves
      for (uint16_t& half : values) half = static_cast<uint16_t>(pick(0, 4) == 0 ? 0x7fff : pick(-9, 9) * 7000);
      TensorView view{};
      view.data = values.data();
      view.dtype = type_;
      view.rank = 2;
      view.shape = {1, keys};
      view.stride = {0, step};
      rows_[static_cast<size_t>(p)] = select_rows(view, 1, window, nullptr).at(0);
      among_.push_back({pick(-2, keys / 2), pick(keys / 2, keys + 2)});
      for (uint32_t& word : words_.emplace_back(static_cast<size_t>(topk_line_words(keys))))
        word = static_cast<uint32_t>(pick(0, 0xffff)) * 0x10003u;
      kept_.push_back(kept_keys(values, keys, step, rows_[static_cast<size_t>(p)]));
      EXPECT_LE(kept_.back().size(), static_cast<size_t>(window));
      auto& within = within_.emplace_back();
      for (int32_t q = 0, begin = 0, end = 0; q < lines; ++q) {
        begin += pick(0, 3) * pick(0, 3);
        end = std::max(end + pick(0, 9) * pick(0, 3), begin);
        within.push_back({std::min(begin, keys), std::min(end, keys)});
      }
      selected_.push_back({.values = values.data(), .stride_q = 0, .stride_kv = step, .s_kv = keys, .window = window});
      selected_.back().among.words = keys % 3 == 0 ? words_.back().data() : nullptr;
      selected_.back().within = {lines > 1 ? within.data() : nullptr, nullptr, 1};
      auto& list = lists_.emplace_back();
      list.keys.assign(static_cast<size_t>(window), -7);
      list.slots.assign(static_cast<size_t>(keys), -7);
      list.begins.assign(static_cast<size_t>(lines), -7);
      list.ends.assign(static_cast<size_t>(lines), -7);
      planes_.push_back({.keys = list.keys.data(),
                         .slots = list.slots.data(),
                         .begins = list.begins.data(),
                         .ends = list.ends.data(),
                         .width = window,
                         .lines = lines,
                         .infinity = infinity(),
                         .bytes = static_cast<int32_t>(size_of(type_))});
    }
    for (size_t p = 0; p < planes_.size(); ++p) {
      selected_[p].rows = &rows_[p];
      selected_[p].among.limits = selected_[p].s_kv % 2 == 0 ? &among_[p] : nullptr;
      planes_[p].count = &lists_[p].count;
    }
  }

  int32_t infinity() const { return type_ == DType::f32 ? 0x7f800000 : type_ == DType::f16 ? 0x7c00 : 0x7f80; }

  // By the definition of a row's two integers, of the last plane's candidates.
  std::vector<int32_t> kept_keys(const std::vector<uint16_t>& values, int32_t keys, int32_t step, TopkRow cut) const {
    std::vector<int32_t> kept;
    for (int32_t key = 0; key < keys; ++key) {
      const auto at = static_cast<size_t>(key * step);
      int32_t code = BiasCodes::code(values[at]);
      if (type_ == DType::f32) {
        uint32_t word;
        std::memcpy(&word, reinterpret_cast<const uint8_t*>(values.data()) + at * 4, 4);
        code = BiasCodes::code(word);
      }
      const bool within = keys % 2 != 0 || (key >= among_.back().begin && key < among_.back().end);
      const bool given =
          keys % 3 != 0 ||
          (words_.back()[static_cast<size_t>(key / 128 * 4 + key % 8 / 2)] >> (key % 128 / 8 * 2 + key % 2) & 1) != 0;
      if (within && given && code <= infinity() && (code > cut.key || (code == cut.key && key <= cut.tie)))
        kept.push_back(key);
    }
    return kept;
  }

  void make_sequences() {
    int32_t width = 0;
    for (int32_t s = 0; s < sequences_; ++s) width = std::max(width, planes_[plane_of(s, 0)].width);
    int64_t from = pick(0, 5), to = 0;
    for (int32_t s = 0; s < sequences_; ++s) {
      GatherSequence sequence{};
      sequence.s_kv = s_kv_[static_cast<size_t>(s)];
      sequence.width = packed_ ? planes_[plane_of(s, 0)].width : width;
      if (packed_) {
        sequence.kv_begin = from, sequence.to_begin = to;
        from += sequence.s_kv, to += sequence.width;
      } else {
        sequence.batch = sequence.to_batch = s;
      }
      list_of_sequences_.push_back(sequence);
      for (int32_t head = 0; head < plane_heads_; ++head)
        plane_list_.push_back(static_cast<int32_t>(plane_of(s, head)));
    }
    p_.width = width;
    tokens_ = packed_ ? from : most_;
    gathered_tokens_ = packed_ ? to : width;
  }

  CudaTensor tensor(int32_t heads, int64_t tokens, int64_t stride, bool random) {
    const int64_t batches = packed_ ? 1 : sequences_;
    auto& memory = halves_.emplace_back(static_cast<size_t>(batches * heads * tokens * stride) + 8, 0xffff);
    if (random)
      for (uint16_t& x : memory) x = f32_to_f16(static_cast<float>(pick(-40, 40)));
    auto* const data = reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
    return {data, packed_ ? 0 : heads * tokens * stride, stride, tokens * stride};
  }

  void make_tensors() {
    p_.selected = selected_.data();
    p_.planes = planes_.data();
    p_.sequences = list_of_sequences_.data();
    p_.plane_of = plane_list_.data();
    p_.num_planes = planes();
    p_.num_sequences = sequences_;
    p_.plane_heads = plane_heads_;
    p_.h_q = h_q_;
    p_.h_kv = h_kv_;
    p_.heads = apart_ == h_q_ ? h_q_ : h_kv_;
    p_.d_qk = d_qk_;
    p_.d_v = d_v_;
    p_.stretch = gather::list_keys * pick(1, 2);
    p_.dtype = DType::f16;
    const int64_t qk = d_qk_ % 8 == 0 ? d_qk_ : d_qk_ + 3, gathered_qk = (d_qk_ + 7) / 8 * 8;
    p_.aligned = d_qk_ % 8 == 0 ? 1 : 0;
    p_.k = tensor(h_kv_, tokens_, qk, true);
    p_.v = tensor(h_kv_, tokens_, d_v_, true);
    p_.dk = tensor(h_kv_, tokens_, qk, false);
    p_.dv = tensor(h_kv_, tokens_, d_v_, false);
    p_.gathered_k = tensor(p_.heads, gathered_tokens_, gathered_qk, false);
    p_.gathered_v = tensor(p_.heads, gathered_tokens_, d_v_, false);
    p_.gathered_dk = tensor(p_.heads, gathered_tokens_, gathered_qk, true);
    p_.gathered_dv = tensor(p_.heads, gathered_tokens_, d_v_, true);

    const int64_t heads = std::array{1, h_kv_, h_q_}[static_cast<size_t>(pick(0, 2))], b = pick(0, 1) ? sequences_ : 1;
    const int64_t shape[4] = {b, heads, 1, most_};
    std::copy(std::begin(shape), std::end(shape), std::begin(p_.dbias_shape));
    p_.bias_heads = std::max<int32_t>(apart_, static_cast<int32_t>(heads));
    bias_.resize(static_cast<size_t>(b * heads * most_));
    for (float& x : bias_) x = static_cast<float>(pick(-99, 99));
    dbias_.assign(bias_.size(), NAN);
    gathered_bias_.assign(static_cast<size_t>(sequences_ * p_.bias_heads * p_.width), NAN);
    gathered_dbias_.resize(gathered_bias_.size());
    for (float& x : gathered_dbias_) x = static_cast<float>(pick(-99, 99));
    p_.bias = {bias_.data(),
               b == 1 ? 0 : heads * most_,
               heads == 1 ? 0 : most_,
               0,
               1,
               static_cast<int32_t>(heads == 1 ? 1 : h_q_ / heads),
               DType::f32};
    p_.dbias = p_.bias;
    p_.dbias.data = dbias_.data();
    p_.gathered_bias = {gathered_bias_.data(), int64_t{p_.bias_heads} * p_.width, p_.width, 0, 1, 1, DType::f32};
    p_.gathered_dbias = p_.gathered_bias;
    p_.gathered_dbias.data = gathered_dbias_.data();
  }

  void check_plane(size_t p) {
    const std::vector<int32_t>& kept = kept_[p];
    const List& list = lists_[p];
    ASSERT_EQ(list.count, static_cast<int32_t>(kept.size()));
    ASSERT_TRUE(std::equal(kept.begin(), kept.end(), list.keys.begin()));
    for (int32_t key = 0; key < selected_[p].s_kv; ++key) {
      const auto at = std::find(kept.begin(), kept.end(), key);
      ASSERT_EQ(list.slots[static_cast<size_t>(key)], at == kept.end() ? -1 : static_cast<int32_t>(at - kept.begin()));
    }
    for (size_t q = 0; q < list.begins.size(); ++q) {
      const TopkLimits all{0, selected_[p].s_kv}, limits = selected_[p].within.limits != nullptr ? within_[p][q] : all;
      const auto below = [&](int32_t end) { return std::lower_bound(kept.begin(), kept.end(), end) - kept.begin(); };
      ASSERT_EQ(list.begins[q], below(limits.begin)) << q;
      ASSERT_EQ(list.ends[q], below(limits.end)) << q;
    }
  }

  static uint16_t element(const CudaTensor& t, int64_t batch, int64_t token, int32_t head, int32_t d) {
    return static_cast<const uint16_t*>(t.data)[batch * t.stride_b + token * t.stride_s + head * t.stride_h + d];
  }

  void check_sequence(size_t index) {
    const GatherSequence& sequence = list_of_sequences_[index];
    const auto s = static_cast<int32_t>(index);
    const struct {
      const CudaTensor &from, &gathered, &to, &gradient;
      int32_t dim;
    } tensors[] = {{p_.k, p_.gathered_k, p_.dk, p_.gathered_dk, d_qk_},
                   {p_.v, p_.gathered_v, p_.dv, p_.gathered_dv, d_v_}};
    for (const auto& t : tensors) {
      for (int32_t head = 0; head < p_.heads; ++head) {
        const std::vector<int32_t>& kept = kept_[plane_of(s, head * (h_q_ / p_.heads))];
        const int32_t source = head / (p_.heads / h_kv_);
        for (int32_t place = 0; place < sequence.width; ++place) {
          const bool listed = static_cast<size_t>(place) < kept.size();
          for (int32_t d = 0; d < t.dim; ++d) {
            const uint16_t want = listed ? element(t.from, sequence.batch,
                                                   sequence.kv_begin + kept[static_cast<size_t>(place)], source, d)
                                         : uint16_t{0};
            ASSERT_EQ(element(t.gathered, sequence.to_batch, sequence.to_begin + place, head, d), want);
          }
        }
      }
      for (int32_t key = 0; key < sequence.s_kv; ++key) {
        for (int32_t head = 0; head < h_kv_; ++head) {
          for (int32_t d = 0; d < t.dim; ++d) {
            float want = 0;
            for (int32_t i = head * (p_.heads / h_kv_); i < (head + 1) * (p_.heads / h_kv_); ++i) {
              const int32_t slot = slot_of(plane_of(s, i * (h_q_ / p_.heads)), key);
              if (slot >= 0) want += f16_to_f32(element(t.gradient, sequence.to_batch, sequence.to_begin + slot, i, d));
            }
            ASSERT_EQ(f16_to_f32(element(t.to, sequence.batch, sequence.kv_begin + key, head, d)), want);
          }
        }
      }
    }
    for (int32_t head = 0; head < p_.bias_heads; ++head) {
      const int32_t head_q = head * (h_q_ / p_.bias_heads);
      const std::vector<int32_t>& kept = kept_[plane_of(s, head_q)];
      for (int32_t place = 0; place < sequence.width; ++place) {
        const float found = gathered_bias_[static_cast<size_t>((s * p_.bias_heads + head) * p_.width + place)];
        ASSERT_EQ(found, static_cast<size_t>(place) < kept.size()
                             ? bias_[bias_at(p_.dbias_shape[0] > 1 ? s : 0, head_q / p_.bias.group,
                                             kept[static_cast<size_t>(place)])]
                             : 0.0f);
      }
    }
  }

  int32_t slot_of(size_t plane, int32_t key) const {
    const auto at = std::lower_bound(kept_[plane].begin(), kept_[plane].end(), key);
    return at == kept_[plane].end() || *at != key ? -1 : static_cast<int32_t>(at - kept_[plane].begin());
  }
  size_t bias_at(int64_t b, int64_t head, int64_t key) const {
    return static_cast<size_t>(b * p_.bias.stride_b + head * p_.bias.stride_h + key);
  }

  void check_dbias() {
    std::vector<float> want(dbias_.size(), 0);
    for (int32_t s = 0; s < sequences_; ++s) {
      for (int32_t head = 0; head < p_.bias_heads; ++head) {
        const int32_t head_q = head * (h_q_ / p_.bias_heads);
        for (int32_t key = 0; key < s_kv_[static_cast<size_t>(s)]; ++key) {
          const int32_t slot = slot_of(plane_of(s, head_q), key);
          if (slot >= 0)
            want[bias_at(p_.dbias_shape[0] > 1 ? s : 0, head_q / p_.bias.group, key)] +=
                gathered_dbias_[static_cast<size_t>((s * p_.bias_heads + head) * p_.width + slot)];
        }
      }
    }
    ASSERT_EQ(dbias_, want);  // whole numbers: exact in any order
  }

  struct List {
    std::vector<int32_t> keys, slots;
    std::vector<int64_t> begins, ends;
    int32_t count = -7;
  };
  std::mt19937 rng_;
  DType type_;
  bool packed_;
  int32_t h_q_, h_kv_, sequences_, plane_heads_, apart_, d_qk_, d_v_, most_ = 0;
  int64_t tokens_ = 0, gathered_tokens_ = 0;
  std::vector<int32_t> s_kv_, plane_list_;
  std::vector<std::vector<uint16_t>> values_, halves_;
  std::vector<std::vector<TopkLimits>> within_;
  std::vector<std::vector<int32_t>> kept_;
  std::vector<TopkRow> rows_;
  std::vector<TopkLimits> among_;
  std::vector<std::vector<uint32_t>> words_;
  std::vector<TopkPlane> selected_;
  std::vector<List> lists_;
  std::vector<GatherPlane> planes_;
  std::vector<GatherSequence> list_of_sequences_;
  std::vector<float> bias_, dbias_, gathered_bias_, gathered_dbias_;
  GatherParams p_{};
};

class GatherKeys : public testing::TestWithParam<emulation::Schedule> {
 protected:
  void SetUp() override { emulation::schedule = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Emulated, GatherKeys, testing::Values(emulation::Schedule::early, emulation::Schedule::late),
                         [](const auto& of) { return of.param == emulation::Schedule::early ? "early" : "late"; });

TEST_P(GatherKeys, ThereAndBack) {
  for (uint32_t seed = 1; seed <= 30 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Gather gather(seed);
    gather.run();
    gather.check();
  }
}

}  // namespace
}  // namespace anymask
