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

// Its memory is the test's.
#undef __shared__
#define __shared__
#include "cuda/kernels/gather_columns.cuh"

namespace anymask {

namespace gather {
alignas(16) unsigned char memory[sizeof(Columns)];
}

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
    by_rows_ = pick(0, 2) > 0;
    forward_ = pick(0, 1) == 1;
    only_come_ = by_rows_ && pick(0, 1) == 1;
    blocks_ = by_rows_ ? pick(1, 3) : 1;
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
    if (by_rows_) {
      launch(dim3(u((p_.num_planes - 1) / gather::threads + 1)), [&] { gather::gather_chosen(p_); });
      for (const TopkPlane& chosen : chosen_) *chosen.rows = select(chosen, *chosen.among.limits);
    }
    expect_kept();
    launch(
        dim3(u((most_ - 1) / p_.stretch + 1), u(pick(1, lists()))), [&] { gather::gather_list(p_); },
        gather::list_threads);
    launch(
        dim3(u((p_.width - 1) / (gather::warps * gather::row_places) + 1), u(p_.heads), u(pick(1, p_.num_sequences))),
        [&] { gather::gather_rows(forward_ ? without_gradients() : p_); });
    launch(dim3(u((p_.width - 1) / gather::threads + 1), u(p_.bias_heads), u(pick(1, p_.num_sequences))),
           [&] { gather::gather_bias(p_); });
    launch(dim3(u(pick(1, 2)), u(pick(1, lists()))), [&] { gather::gather_ends(p_); });
    if (only_come_) {
      emulation::run({.grid = dim3(u(pick(1, lists()))),
                      .threads = gather::column_threads,
                      .shared = {gather::memory, sizeof gather::memory},
                      .schedule = emulation::schedule},
                     [&] { gather::gather_columns(p_); });
    }
    launch(dim3(u(pick(1, 40)), u(h_kv_), u(pick(1, sequences_))), [&] { gather::scatter_rows(p_); });
    launch(dim3(u((most_ - 1) / gather::threads + 1), u(p_.dbias_shape[1]), u(p_.dbias_shape[0])),
           [&] { gather::scatter_bias(p_); });
    launch(dim3(u((h_q_ - 1) / gather::threads + 1)), [&] { gather::scatter_sinks(p_); });
  }

  void check() {
    for (int32_t list = 0; list < lists(); ++list) check_list(static_cast<size_t>(list));
    for (int32_t s = 0; s < p_.num_sequences; ++s) check_sequence(static_cast<size_t>(s));
    for (int32_t s = 0; s < sequences_; ++s) check_gradients(static_cast<size_t>(s));
    check_dbias();
    for (size_t h = 0; h < dsinks_.size(); ++h) {
      float want = 0;
      for (size_t call = 0; call < 3; ++call) want += call_dsinks_[call * dsinks_.size() + h];
      ASSERT_EQ(dsinks_[h], want);
    }
  }

 private:
  int32_t pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng_); }
  int32_t planes() const { return sequences_ * apart_; }
  int32_t lists() const { return planes() * blocks_; }
  // Of a gathered sequence: one for each block of a sequence's rows.
  size_t list_of(int32_t s, int32_t head_q) const {
    return static_cast<size_t>((s / blocks_ * apart_ + head_q / (h_q_ / apart_)) * blocks_ + s % blocks_);
  }

  void make_planes() {
    for (int32_t s = 0; s < sequences_; ++s)
      s_kv_.push_back(packed_ || s == 0 ? pick(1, pick(0, 5) == 0 ? 5000 : 200) : s_kv_[0]);
    most_ = *std::max_element(s_kv_.begin(), s_kv_.end());
    rows_.resize(static_cast<size_t>(planes()));
    int32_t window = 0, lines = 1;
    for (int32_t p = 0; p < planes(); ++p) {
      const int32_t keys = s_kv_[static_cast<size_t>(p / apart_)], step = pick(0, 3) == 0 ? 2 : 1;
      if (p % apart_ == 0) window = std::min(keys, s_kv_[0] / pick(1, 5) + 1);  // of a sequence
      if (p % apart_ == 0 || !by_rows_) lines = by_rows_ ? blocks_ * pick(1, 40) : pick(0, 2) == 0 ? 1 : pick(1, 600);
      auto& values = values_.emplace_back(static_cast<size_t>(keys * step * 2) + 16);  // 16-bit halves
      for (uint16_t& half : values) half = static_cast<uint16_t>(pick(0, 4) == 0 ? 0x7fff : pick(-9, 9) * 7000);
      for (uint32_t& word : words_.emplace_back(static_cast<size_t>(topk_line_words(keys))))
        word = static_cast<uint32_t>(pick(0, 0xffff)) * 0x10003u;
      within_.push_back(band(keys, lines, 9, false));
      among_.push_back(by_rows_ ? band(keys, lines, pick(1, 30), only_come_)
                                : std::vector<TopkLimits>{{pick(-2, keys / 2), pick(keys / 2, keys + 2)}});
      selected_.push_back({.values = values.data(), .stride_q = 0, .stride_kv = step, .s_kv = keys, .window = window});
      if (!by_rows_) rows_[static_cast<size_t>(p)] = select(selected_.back(), {0, keys});
      selected_.back().within = {lines > 1 ? within_.back().data() : nullptr, nullptr, 1};
      for (int32_t block = 0; block < blocks_; ++block) add_list(p, lines / blocks_ * block, lines / blocks_);
    }
    for (size_t p = 0; p < selected_.size(); ++p) {
      TopkPlane& plane = selected_[p];
      if (by_rows_) {
        plane.among.limits = among_[p].data();
        plane.among.step = 1;
      } else {
        plane.rows = &rows_[p];
        plane.among.words = plane.s_kv % 3 == 0 ? words_[p].data() : nullptr;
        plane.among.limits = plane.s_kv % 2 == 0 ? among_[p].data() : nullptr;
      }
    }
    chosen_.resize(static_cast<size_t>(lists()));
    for (size_t i = 0; i < planes_.size(); ++i) {
      planes_[i].count = &lists_[i].count;
      planes_[i].limits = by_rows_ ? lists_[i].limits : nullptr;
      planes_[i].cut = &lists_[i].cut;
      // Lists of a sequence's block have one width.
      const auto lists = static_cast<size_t>(apart_ * blocks_), first = i / lists * lists;
      for (size_t j = first + i % static_cast<size_t>(blocks_); j < first + lists; j += static_cast<size_t>(blocks_))
        planes_[i].width = std::max(planes_[i].width, width_of(j));
      lists_[i].keys.assign(static_cast<size_t>(planes_[i].width), -7);
      lists_[i].values.assign(static_cast<size_t>(planes_[i].width), 0xdeadbeef);
      planes_[i].keys = lists_[i].keys.data();
      planes_[i].values = by_rows_ ? lists_[i].values.data() : nullptr;
      for (auto* const rows : {&lists_[i].enters, &lists_[i].leaves})
        rows->assign(static_cast<size_t>(planes_[i].width), -7);
      planes_[i].enters = lists_[i].enters.data();
      planes_[i].leaves = lists_[i].leaves.data();
    }
  }

  std::vector<TopkLimits> band(int32_t keys, int32_t lines, int step, bool fixed) {
    std::vector<TopkLimits> out;
    for (int32_t q = 0, begin = 0, end = 0; q < lines; ++q) {
      if (q == 0 || !fixed) begin += pick(0, 3) * pick(0, step / 3);
      end = std::max(end + pick(0, step) * pick(0, 3), begin);
      out.push_back({std::min(begin, keys), std::min(end, keys)});
    }
    return out;
  }

  void add_list(int32_t plane, int32_t first, int32_t lines) {
    auto& list = lists_.emplace_back();
    list.slots.assign(static_cast<size_t>(selected_.back().s_kv), -7);
    for (auto* const ends : {&list.begins, &list.ends, &list.among_begins, &list.among_ends})
      ends->assign(static_cast<size_t>(lines), -7);
    planes_.push_back({.source = plane,
                       .first_row = first,
                       .slots = list.slots.data(),
                       .begins = list.begins.data(),
                       .ends = list.ends.data(),
                       .lines = lines,
                       .infinity = infinity(),
                       .bytes = static_cast<int32_t>(size_of(type_))});
    if (!by_rows_) return;
    planes_.back().among_begins = list.among_begins.data();
    planes_.back().among_ends = list.among_ends.data();
  }

  // Of the list alone.
  int32_t width_of(size_t list) const {
    const GatherPlane& plane = planes_[list];
    const int32_t window = selected_[static_cast<size_t>(plane.source)].window;
    if (!by_rows_) return window;
    const auto& rows = among_[static_cast<size_t>(plane.source)];
    const TopkLimits first = rows[static_cast<size_t>(plane.first_row)],
                     last = rows[static_cast<size_t>(plane.first_row + plane.lines - 1)];
    const int32_t any = last.end - first.begin, all = std::max(first.end - last.begin, 0);
    return std::max(std::min(any, window + any - all), 1);
  }

  // Among the keys [begin, end).
  TopkRow select(const TopkPlane& row, TopkLimits among) const {
    if (among.begin >= among.end) return {-infinity(), -1};
    TensorView view{};
    view.data = const_cast<uint8_t*>(static_cast<const uint8_t*>(row.values)) +
                among.begin * row.stride_kv * static_cast<int64_t>(size_of(type_));
    view.dtype = type_;
    view.rank = 2;
    view.shape = {1, among.end - among.begin};
    view.stride = {0, row.stride_kv};
    TopkRow found = select_rows(view, 1, row.window, nullptr).at(0);
    if (found.tie >= 0) found.tie += among.begin;
    return found;
  }

  int32_t infinity() const { return type_ == DType::f32 ? 0x7f800000 : type_ == DType::f16 ? 0x7c00 : 0x7f80; }

  int32_t code_at(const TopkPlane& row, int32_t key) const {
    const int64_t at = key * row.stride_kv;
    if (type_ != DType::f32) return BiasCodes::code(static_cast<const uint16_t*>(row.values)[at]);
    uint32_t word;
    std::memcpy(&word, static_cast<const uint8_t*>(row.values) + at * 4, 4);
    return BiasCodes::code(word);
  }

  // By the definition of a row's two integers.
  std::vector<int32_t> kept_keys(const TopkPlane& row, TopkRow cut, TopkLimits limits) const {
    std::vector<int32_t> kept;
    for (int32_t key = std::max(limits.begin, 0); key < std::min(limits.end, row.s_kv); ++key) {
      const int32_t code = code_at(row, key);
      const bool given = row.among.words == nullptr ||
                         (row.among.words[key / 128 * 4 + key % 8 / 2] >> (key % 128 / 8 * 2 + key % 2) & 1) != 0;
      if (given && code <= infinity() && (code > cut.key || (code == cut.key && key <= cut.tie))) kept.push_back(key);
    }
    return kept;
  }

  // What each list will hold, which is more than any of its rows keeps.
  void expect_kept() {
    kept_of_rows_.resize(planes_.size());
    for (size_t i = 0; i < planes_.size(); ++i) {
      const GatherPlane& plane = planes_[i];
      const TopkPlane& row = selected_[static_cast<size_t>(plane.source)];
      if (!by_rows_) {
        kept_.push_back(
            kept_keys(row, *row.rows, row.among.limits != nullptr ? *row.among.limits : TopkLimits{0, row.s_kv}));
        continue;
      }
      const auto& rows = among_[static_cast<size_t>(plane.source)];
      const auto first = static_cast<size_t>(plane.first_row), last = first + static_cast<size_t>(plane.lines) - 1;
      kept_.push_back(kept_keys(row, *plane.cut, {rows[first].begin, rows[last].end}));
      EXPECT_LE(kept_.back().size(), static_cast<size_t>(plane.width));
      for (size_t q = first; q <= last; ++q) {
        const std::vector<int32_t> of_row = kept_keys(row, select(row, rows[q]), rows[q]);
        ASSERT_TRUE(std::includes(kept_.back().begin(), kept_.back().end(), of_row.begin(), of_row.end())) << q;
        kept_of_rows_[i].push_back(of_row);
      }
    }
  }

  void make_sequences() {
    int32_t width = 0;
    for (const GatherPlane& plane : planes_) width = std::max(width, plane.width);
    int64_t from = pick(0, 5), to = 0;
    const bool packed = packed_ || by_rows_;
    for (int32_t s = 0; s < sequences_; ++s) {
      GatherSource source{.s_kv = s_kv_[static_cast<size_t>(s)], .first = s * blocks_, .count = blocks_};
      if (packed_) {
        source.kv_begin = from;
        from += source.s_kv;
      } else {
        source.batch = s;
      }
      sources_.push_back(source);
      for (int32_t i = s * blocks_; i < (s + 1) * blocks_; ++i) {
        GatherSequence sequence{.source = s, .width = packed ? planes_[list_of(i, 0)].width : width};
        if (packed) {
          sequence.begin = to;
          to += sequence.width;
        } else {
          sequence.batch = s;
        }
        list_of_sequences_.push_back(sequence);
        for (int32_t head = 0; head < plane_heads_; ++head)
          plane_list_.push_back(static_cast<int32_t>(list_of(i, head)));
      }
    }
    p_.width = width;
    tokens_ = packed_ ? from : most_;
    gathered_tokens_ = packed ? to : width;
  }

  GatherParams without_gradients() const {
    GatherParams p = p_;
    p.gathered_dk = p.gathered_dv = {};
    return p;
  }

  CudaTensor tensor(int32_t heads, int64_t tokens, int64_t stride, bool random, bool packed) {
    const int64_t batches = packed ? 1 : sequences_;
    auto& memory = halves_.emplace_back(static_cast<size_t>(batches * heads * tokens * stride) + 8, 0xffff);
    if (random)
      for (uint16_t& x : memory) x = f32_to_f16(static_cast<float>(pick(-40, 40)));
    auto* const data = reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
    return {data, packed ? 0 : heads * tokens * stride, stride, tokens * stride};
  }

  void make_tensors() {
    p_.selected = selected_.data();
    p_.chosen = by_rows_ ? chosen_.data() : selected_.data();
    p_.planes = planes_.data();
    p_.sources = sources_.data();
    p_.sequences = list_of_sequences_.data();
    p_.plane_of = plane_list_.data();
    p_.num_planes = lists();
    p_.num_sources = sequences_;
    p_.num_sequences = sequences_ * blocks_;
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
    p_.k = tensor(h_kv_, tokens_, qk, true, packed_);
    p_.v = tensor(h_kv_, tokens_, d_v_, true, packed_);
    p_.dk = tensor(h_kv_, tokens_, qk, false, packed_);
    p_.dv = tensor(h_kv_, tokens_, d_v_, false, packed_);
    p_.gathered_k = tensor(p_.heads, gathered_tokens_, gathered_qk, false, packed_ || by_rows_);
    p_.gathered_v = tensor(p_.heads, gathered_tokens_, d_v_, false, packed_ || by_rows_);
    p_.gathered_dk = tensor(p_.heads, gathered_tokens_, gathered_qk, true, packed_ || by_rows_);
    p_.gathered_dv = tensor(p_.heads, gathered_tokens_, d_v_, true, packed_ || by_rows_);

    const int64_t heads = std::array{1, h_kv_, h_q_}[static_cast<size_t>(pick(0, 2))], b = pick(0, 1) ? sequences_ : 1;
    const int64_t shape[4] = {b, heads, 1, most_};
    std::copy(std::begin(shape), std::end(shape), std::begin(p_.dbias_shape));
    p_.bias_heads = std::max<int32_t>(apart_, static_cast<int32_t>(heads));
    bias_.resize(static_cast<size_t>(b * heads * most_));
    for (float& x : bias_) x = static_cast<float>(pick(-99, 99));
    dbias_.assign(bias_.size(), NAN);
    gathered_bias_.assign(static_cast<size_t>(p_.num_sequences * p_.bias_heads * p_.width), NAN);
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

    dsinks_.assign(static_cast<size_t>(h_q_), NAN);
    call_dsinks_.resize(3 * dsinks_.size());
    for (float& x : call_dsinks_) x = static_cast<float>(pick(-99, 99));
    p_.dsinks = {dsinks_.data(), 0, 1, DType::f32};
    p_.call_dsinks = call_dsinks_.data();
    p_.num_calls = 3;
  }

  void check_list(size_t index) {
    const std::vector<int32_t>& kept = kept_[index];
    const List& list = lists_[index];
    const auto p = static_cast<size_t>(planes_[index].source);
    ASSERT_EQ(list.count, static_cast<int32_t>(kept.size()));
    ASSERT_TRUE(std::equal(kept.begin(), kept.end(), list.keys.begin()));
    for (int32_t key = 0; key < selected_[p].s_kv; ++key) {
      const auto at = std::find(kept.begin(), kept.end(), key);
      ASSERT_EQ(list.slots[static_cast<size_t>(key)], at == kept.end() ? -1 : static_cast<int32_t>(at - kept.begin()));
    }
    const auto below = [&](int32_t end) { return std::lower_bound(kept.begin(), kept.end(), end) - kept.begin(); };
    for (size_t q = 0; q < list.begins.size(); ++q) {
      const size_t row = static_cast<size_t>(planes_[index].first_row) + q;
      const TopkLimits all{0, selected_[p].s_kv},
          limits = selected_[p].within.limits != nullptr ? within_[p][row] : all;
      ASSERT_EQ(list.begins[q], below(limits.begin)) << q;
      ASSERT_EQ(list.ends[q], below(limits.end)) << q;
      if (!by_rows_) continue;
      ASSERT_EQ(list.among_begins[q], below(among_[p][row].begin)) << q;
      ASSERT_EQ(list.among_ends[q], below(among_[p][row].end)) << q;
    }
    for (size_t q = 0; only_come_ && q < list.begins.size(); ++q) {
      std::vector<int32_t> seen;
      for (size_t place = 0; place < list.enters.size(); ++place) {
        const auto row = static_cast<int64_t>(q);
        if (row < list.enters[place] || row >= list.leaves[place]) continue;
        ASSERT_LT(place, kept.size());
        seen.push_back(kept[place]);
      }
      ASSERT_EQ(seen, kept_of_rows_[index][q]) << q;
    }
    for (size_t place = 0; by_rows_ && place < kept.size(); ++place) {
      TopkPlane values = selected_[p];
      values.values = list.values.data();
      values.stride_kv = 1;
      ASSERT_EQ(code_at(values, static_cast<int32_t>(place)), code_at(selected_[p], kept[place]));
    }
  }

  static uint16_t element(const CudaTensor& t, int64_t batch, int64_t token, int32_t head, int32_t d) {
    return static_cast<const uint16_t*>(t.data)[batch * t.stride_b + token * t.stride_s + head * t.stride_h + d];
  }

  struct Tensors {
    const CudaTensor &from, &gathered, &to, &gradient;
    int32_t dim;
  };
  std::array<Tensors, 2> tensors() const {
    return {{{p_.k, p_.gathered_k, p_.dk, p_.gathered_dk, d_qk_}, {p_.v, p_.gathered_v, p_.dv, p_.gathered_dv, d_v_}}};
  }

  void check_sequence(size_t index) {
    const GatherSequence& sequence = list_of_sequences_[index];
    const GatherSource& from = sources_[static_cast<size_t>(sequence.source)];
    const auto s = static_cast<int32_t>(index);
    for (const auto& t : tensors()) {
      for (int32_t head = 0; head < p_.heads; ++head) {
        const std::vector<int32_t>& kept = kept_[list_of(s, head * (h_q_ / p_.heads))];
        const int32_t source = head / (p_.heads / h_kv_);
        const auto count = static_cast<int32_t>(kept.size());
        const int32_t end = forward_ ? std::min(sequence.width, (count + 127) / 128 * 128) : sequence.width;
        for (int32_t place = 0; place < end; ++place) {
          const bool listed = place < count;
          for (int32_t d = 0; d < t.dim; ++d) {
            const uint16_t want =
                listed ? element(t.from, from.batch, from.kv_begin + kept[static_cast<size_t>(place)], source, d)
                       : uint16_t{0};
            ASSERT_EQ(element(t.gathered, sequence.batch, sequence.begin + place, head, d), want);
          }
        }
      }
    }
    for (int32_t head = 0; head < p_.bias_heads; ++head) {
      const int32_t head_q = head * (h_q_ / p_.bias_heads);
      const std::vector<int32_t>& kept = kept_[list_of(s, head_q)];
      for (int32_t place = 0; place < sequence.width; ++place) {
        const float found = gathered_bias_[static_cast<size_t>((s * p_.bias_heads + head) * p_.width + place)];
        ASSERT_EQ(found, static_cast<size_t>(place) < kept.size()
                             ? bias_[bias_at(p_.dbias_shape[0] > 1 ? sequence.source : 0, head_q / p_.bias.group,
                                             kept[static_cast<size_t>(place)])]
                             : 0.0f);
      }
    }
  }

  void check_gradients(size_t index) {
    const GatherSource& sequence = sources_[index];
    for (const auto& t : tensors()) {
      for (int32_t key = 0; key < sequence.s_kv; ++key) {
        for (int32_t head = 0; head < h_kv_; ++head) {
          for (int32_t d = 0; d < t.dim; ++d) {
            float want = 0;
            for (int32_t s = sequence.first; s < sequence.first + sequence.count; ++s) {
              const GatherSequence& from = list_of_sequences_[static_cast<size_t>(s)];
              for (int32_t i = head * (p_.heads / h_kv_); i < (head + 1) * (p_.heads / h_kv_); ++i) {
                const int32_t slot = slot_of(list_of(s, i * (h_q_ / p_.heads)), key);
                if (slot >= 0) want += f16_to_f32(element(t.gradient, from.batch, from.begin + slot, i, d));
              }
            }
            ASSERT_EQ(f16_to_f32(element(t.to, sequence.batch, sequence.kv_begin + key, head, d)), want);
          }
        }
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
    for (int32_t s = 0; s < p_.num_sequences; ++s) {
      for (int32_t head = 0; head < p_.bias_heads; ++head) {
        const int32_t head_q = head * (h_q_ / p_.bias_heads);
        for (int32_t key = 0; key < s_kv_[static_cast<size_t>(s / blocks_)]; ++key) {
          const int32_t slot = slot_of(list_of(s, head_q), key);
          if (slot >= 0)
            want[bias_at(p_.dbias_shape[0] > 1 ? s / blocks_ : 0, head_q / p_.bias.group, key)] +=
                gathered_dbias_[static_cast<size_t>((s * p_.bias_heads + head) * p_.width + slot)];
        }
      }
    }
    ASSERT_EQ(dbias_, want);  // whole numbers: exact in any order
  }

  struct List {
    std::vector<int32_t> keys, slots;
    std::vector<int64_t> begins, ends, among_begins, among_ends, enters, leaves;
    std::vector<uint32_t> values;
    TopkLimits limits[2];
    TopkRow cut;
    int32_t count = -7;
  };
  std::mt19937 rng_;
  DType type_;
  bool packed_, by_rows_, only_come_, forward_;
  int32_t blocks_ = 1;  // of a sequence's rows
  int32_t h_q_, h_kv_, sequences_, plane_heads_, apart_, d_qk_, d_v_, most_ = 0;
  int64_t tokens_ = 0, gathered_tokens_ = 0;
  std::vector<int32_t> s_kv_, plane_list_;
  std::vector<std::vector<uint16_t>> values_, halves_;
  std::vector<std::vector<TopkLimits>> within_, among_;
  std::vector<std::vector<int32_t>> kept_;
  std::vector<std::vector<std::vector<int32_t>>> kept_of_rows_;  // of each list
  std::vector<TopkRow> rows_;
  std::vector<std::vector<uint32_t>> words_;
  std::vector<TopkPlane> selected_, chosen_;
  std::vector<List> lists_;
  std::vector<GatherPlane> planes_;
  std::vector<GatherSource> sources_;
  std::vector<GatherSequence> list_of_sequences_;
  std::vector<float> bias_, dbias_, gathered_bias_, gathered_dbias_, dsinks_, call_dsinks_;
  GatherParams p_{};
};

class GatherKeys : public testing::TestWithParam<emulation::Schedule> {
 protected:
  void SetUp() override { emulation::schedule = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Emulated, GatherKeys, testing::Values(emulation::Schedule::early, emulation::Schedule::late),
                         [](const auto& of) { return of.param == emulation::Schedule::early ? "early" : "late"; });

TEST_P(GatherKeys, ThereAndBack) {
  for (uint32_t seed = 1; seed <= 40 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Gather gather(seed);
    gather.run();
    gather.check();
  }
}

}  // namespace
}  // namespace anymask
