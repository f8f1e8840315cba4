#include "mask/select.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "mask/bound_mask.h"
#include "mask/kinds/bias_leaf.h"
#include "mask/select_kernels.h"

namespace anymask {
namespace {

// The rows of one plane, one after the other. T: the type of a bias's bits.
template <class T>
class Selector {
 public:
  using Code = std::make_signed_t<T>;

  Selector(const TensorView& bias, int64_t s_q, int64_t window, const PlaneMask* among)
      : bias_(bias), s_q_(s_q), s_kv_(bias.shape[1]), window_(std::min(window, s_kv_)), among_(among) {
    infinity_ = static_cast<Code>(infinity_code(bias.dtype));
    codes_.resize(static_cast<size_t>(select_padded(s_kv_)));
  }

  std::vector<TopkRow> run() {
    if (window_ == 0) return {topk_nothing};
    const bool one_row = bias_.stride[0] == 0;
    std::vector<TopkRow> rows;
    if (among_ == nullptr) {
      rows.resize(static_cast<size_t>(one_row ? 1 : s_q_));
      for (size_t q = 0; q < rows.size(); ++q) {
        encode(static_cast<int64_t>(q), 0, s_kv_, nullptr);
        rows[q] = select();
      }
      return rows;
    }
    rows.resize(static_cast<size_t>(s_q_));
    words_ = (s_kv_ + 63) / 64;
    const int64_t stripe = std::clamp<int64_t>(8192 / words_, 1, 64);  // rows whose candidates are evaluated at once
    std::vector<uint64_t> words(static_cast<size_t>(stripe * words_)), before(static_cast<size_t>(words_), 0);
    for (int64_t begin = 0; begin < s_q_; begin += stripe) {
      const int64_t count = std::min(stripe, s_q_ - begin);
      among_->words(begin, count, 0, words_, words.data());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t q = begin + i;
        const uint64_t* candidates = words.data() + i * words_;
        rows[static_cast<size_t>(q)] = one_row ? next(q, before.data(), candidates) : fresh(q, candidates);
        std::copy_n(candidates, words_, before.data());
      }
    }
    if (one_row && std::all_of(rows.begin(), rows.end(), [&](const TopkRow& row) { return row == rows[0]; }))
      rows.resize(1);
    return rows;
  }

 private:
  struct Key {
    Code code;
    int32_t at;
    // Better keys first, so that a heap's top is the worst of those kept.
    friend bool operator<(const Key& a, const Key& b) { return a.code != b.code ? a.code > b.code : a.at < b.at; }
  };

  // The row after `before` where one row of biases serves all.
  TopkRow next(int64_t q, const uint64_t* before, const uint64_t* candidates) {
    bool grows = true, same = true;
    for (int64_t w = 0; w < words_ && grows; ++w) {
      same &= before[w] == candidates[w];
      grows = (before[w] & ~candidates[w]) == 0;
    }
    if (grows && same && q > 0) return last_;
    growing_ = grows ? growing_ + 1 : 0;
    heaped_ &= grows;
    if (growing_ < 2 && !heaped_) return last_ = fresh(q, candidates);
    if (!heaped_) {  // candidates grow again: from here on each enters once
      heap_.clear();
      valid_in_heap_ = 0;
      heaped_ = true;
      encode(0, 0, s_kv_, nullptr);
      for (int64_t w = 0; w < words_; ++w) enter(w, candidates[w]);
    } else {
      if (q == 0) encode(0, 0, s_kv_, nullptr);
      for (int64_t w = 0; w < words_; ++w) enter(w, candidates[w] & ~before[w]);
    }
    if (valid_in_heap_ <= window_) return last_ = {-int32_t{infinity_}, -1};
    return last_ = {heap_.front().code, heap_.front().at};
  }

  void enter(int64_t word, uint64_t bits) {
    for (; bits != 0; bits &= bits - 1) {
      const auto at = static_cast<int32_t>(64 * word + std::countr_zero(bits));
      const Key key{codes_[static_cast<size_t>(at)], at};
      if (key.code == -infinity_) continue;
      ++valid_in_heap_;
      if (static_cast<int64_t>(heap_.size()) == window_) {
        if (!(key < heap_.front())) continue;
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.back() = key;
      } else {
        heap_.push_back(key);
      }
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  // A row on its own.
  TopkRow fresh(int64_t q, const uint64_t* candidates) {
    int64_t first = 0, last = words_;
    while (first < last && candidates[first] == 0) ++first;
    while (first < last && candidates[last - 1] == 0) --last;
    if (first == last) return {-int32_t{infinity_}, -1};
    encode(q, 64 * first, std::min(64 * last, s_kv_), candidates);
    return select();
  }

  // Codes of the keys [begin, end), those of -inf where a key is no candidate or never kept.
  void encode(int64_t q, int64_t begin, int64_t end, const uint64_t* candidates) {
    heaped_ &= candidates == nullptr;
    begin_ = begin;
    size_ = select_padded(end - begin);
    const T* row = bias_.as<const T>() + q * bias_.stride[0] + begin * bias_.stride[1];
    if (bias_.stride[1] != 1) {
      gathered_.resize(static_cast<size_t>(end - begin));
      for (int64_t i = 0; i < end - begin; ++i) gathered_[static_cast<size_t>(i)] = row[i * bias_.stride[1]];
      row = gathered_.data();
    }
    kernels_.encode(row, end - begin, infinity_, codes_.data());
    std::fill(codes_.begin() + (end - begin), codes_.begin() + size_, static_cast<Code>(-infinity_));
    if (candidates == nullptr) return;
    for (int64_t kv = begin; kv < end; kv += 64) {
      const uint64_t word = candidates[kv / 64];
      if (word == ~uint64_t{0}) continue;
      Code* const codes = codes_.data() + (kv - begin);
      for (int i = 0; i < 64; ++i) codes[i] = word >> i & 1 ? codes[i] : static_cast<Code>(-infinity_);
    }
  }

  int64_t above(int64_t code) const { return kernels_.count_above(codes_.data(), size_, static_cast<Code>(code)); }

  // Throughout, more than `window` codes lie above `low` and fewer above `high`: the least one kept is in (low, high].
  TopkRow select() {
    int64_t low = -int64_t{infinity_}, high = infinity_;
    int64_t above_low = above(low), above_high = 0;
    if (above_low <= window_) return {static_cast<int32_t>(low), -1};
    bool was_high = false;
    for (int round = 0; high - low > 1; ++round) {
      // The threshold of the row before is the first guess, its slope gives the second; then interpolation, and every
      // third time bisection.
      int64_t guess = low + (high - low) / 2;
      if (round == 0) {
        guess = guess_;
      } else if (round == 1 && slope_ > 0) {
        guess = was_high ? high - 1 - static_cast<int64_t>(slope_ * static_cast<double>(window_ - above_high))
                         : low + 1 + static_cast<int64_t>(slope_ * static_cast<double>(above_low - window_));
      } else if (round % 3 != 0) {
        guess =
            low + static_cast<int64_t>(static_cast<double>(high - low) * (static_cast<double>(above_low - window_) /
                                                                          static_cast<double>(above_low - above_high)));
      }
      guess = std::clamp(guess, low + 1, high - 1);
      const int64_t found = above(guess);
      was_high = found < window_;
      if (found > window_) {
        low = guess;
        above_low = found;
      } else {
        high = guess;
        above_high = found;
        if (found == window_) break;
      }
    }
    guess_ = high;
    slope_ = static_cast<double>(high - low) / static_cast<double>(above_low - above_high);
    if (above_high < window_) {
      const int64_t at = nth_equal(static_cast<Code>(high), window_ - above_high);
      return {static_cast<int32_t>(high), static_cast<int32_t>(begin_ + at)};
    }
    const Code key = kernels_.least_above(codes_.data(), size_, static_cast<Code>(high));
    return {key, static_cast<int32_t>(begin_ + last_equal(key))};
  }

  int64_t last_equal(Code key) const {
    constexpr int64_t stretch = 4 * select_block;
    int64_t at = size_;
    for (; at > stretch; at -= stretch)
      if (kernels_.count_equal(codes_.data() + at - stretch, stretch, key) > 0) break;
    while (codes_[static_cast<size_t>(--at)] != key) {
    }
    return at;
  }
  // The n-th key of that code, counted from 1; there are so many.
  int64_t nth_equal(Code key, int64_t n) const {
    int64_t at = 0;
    for (;; at += select_block) {
      const int64_t found = kernels_.count_equal(codes_.data() + at, select_block, key);
      if (found >= n) break;
      n -= found;
    }
    for (;; ++at) {
      n -= codes_[static_cast<size_t>(at)] == key;
      if (n == 0) return at;
    }
  }

  const TensorView bias_;
  const int64_t s_q_, s_kv_, window_;
  const PlaneMask* among_;
  const SelectKernels<T>& kernels_ = select_kernels<T>();
  Code infinity_ = 0;
  int64_t words_ = 0, begin_ = 0, size_ = 0;  // of the row in codes_: its first key, its padded length
  std::vector<Code> codes_;
  std::vector<T> gathered_;
  int64_t guess_ = 0;
  double slope_ = 0;  // codes from one key to the next, near the threshold
  std::vector<Key> heap_;
  int64_t valid_in_heap_ = 0, growing_ = 1;
  bool heaped_ = true;  // the heap holds the row before; at first nothing of nothing
  TopkRow last_{};
};

}  // namespace

std::vector<TopkRow> select_rows(const TensorView& bias, int64_t s_q, int64_t window, const PlaneMask* among) {
  if (s_q == 0 || bias.shape[1] == 0) return {topk_nothing};
  if (size_of(bias.dtype) == 4) return Selector<uint32_t>(bias, s_q, window, among).run();
  return Selector<uint16_t>(bias, s_q, window, among).run();
}

}  // namespace anymask
