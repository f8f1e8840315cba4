// Evaluation of a plane: one pass over its steps with a stack of three-valued results, of booleans, of intervals, or of
// words.
#include <algorithm>
#include <array>

#include "mask/bound_mask.h"
#include "mask/kinds/common.h"
#include "mask/plane_code.h"

namespace anymask {

Kept PlaneMask::classify(const Rect& r) const {
  const Code& code = *code_;
  if (code.band && code.leaves.size() > 1) {
    const Interval first = interval(r.q_begin), last = interval(r.q_end - 1);
    if (last.end <= r.kv_begin || first.begin >= r.kv_end) return Kept::empty;
    if (last.begin <= r.kv_begin && r.kv_end <= first.end) return Kept::full;
  }
  std::array<Kept, max_stack> stack;
  size_t top = 0;  // one above the last value
  for (size_t i = 0; i < code.steps.size(); ++i) {
    const PlaneStep& step = code.steps[i];
    switch (step.step) {
      case Step::leaf:
        stack[top++] = code.leaves[step.at]->ops->classify(code.leaves[step.at]->args, r);
        break;
      case Step::full:
        stack[top++] = Kept::full;
        break;
      case Step::empty:
        stack[top++] = Kept::empty;
        break;
      case Step::op_not:
        stack[top - 1] = kept_not(stack[top - 1]);
        break;
      case Step::op_and:
        --top, stack[top - 1] = kept_and(stack[top - 1], stack[top]);
        break;
      case Step::op_or:
        --top, stack[top - 1] = kept_or(stack[top - 1], stack[top]);
        break;
      case Step::skip_if_empty:
        if (stack[top - 1] == Kept::empty) i = step.at - 1;
        break;
      case Step::skip_if_full:
        if (stack[top - 1] == Kept::full) i = step.at - 1;
        break;
    }
  }
  return stack[0];
}

bool PlaneMask::keep(int64_t q, int64_t kv) const {
  const Code& code = *code_;
  std::array<bool, max_stack> stack;
  size_t top = 0;
  for (size_t i = 0; i < code.steps.size(); ++i) {
    const PlaneStep& step = code.steps[i];
    switch (step.step) {
      case Step::leaf:
        stack[top++] = code.leaves[step.at]->ops->keep(code.leaves[step.at]->args, q, kv);
        break;
      case Step::full:
        stack[top++] = true;
        break;
      case Step::empty:
        stack[top++] = false;
        break;
      case Step::op_not:
        stack[top - 1] = !stack[top - 1];
        break;
      case Step::op_and:
        --top, stack[top - 1] = stack[top - 1] && stack[top];
        break;
      case Step::op_or:
        --top, stack[top - 1] = stack[top - 1] || stack[top];
        break;
      case Step::skip_if_empty:
        if (!stack[top - 1]) i = step.at - 1;
        break;
      case Step::skip_if_full:
        if (stack[top - 1]) i = step.at - 1;
        break;
    }
  }
  return stack[0];
}

uint64_t PlaneMask::word(int64_t q, int64_t kv_begin) const {
  uint64_t bits = 0;
  words(q, 1, kv_begin, 1, &bits);
  return bits;
}

namespace {

bool all_words(const uint64_t* words, int64_t count, uint64_t value) {
  return std::all_of(words, words + count, [value](uint64_t word) { return word == value; });
}

}  // namespace

void PlaneMask::words(int64_t q_begin, int64_t rows, int64_t kv_begin, int64_t words, uint64_t* bits) const {
  const Code& code = *code_;
  const int64_t inside = kv_begin < s_kv ? std::clamp<int64_t>(s_q - q_begin, 0, rows) : 0;  // rows of the plane
  std::fill(bits + inside * words, bits + rows * words, uint64_t{0});
  if (inside == 0 || words == 0) return;
  rows = inside;

  if (code.band && code.leaves.size() > 1) {
    std::array<Interval, 64> kept;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = row % 64;
      if (i == 0) intervals(q_begin + row, std::min<int64_t>(64, rows - row), kept.data());
      for (int64_t w = 0; w < words; ++w)
        bits[row * words + w] = interval_word(kept[static_cast<size_t>(i)], kv_begin + 64 * w);
    }
    return;  // intervals end at s_kv
  }

  // Some rows at a time, so that the upper levels of the stack stay small; the lowest level is the output itself.
  const int64_t step_rows = code.stack == 1 ? rows : std::max<int64_t>(1, 2048 / words);
  const auto level_words = static_cast<size_t>(std::min(step_rows, rows) * words);
  std::array<uint64_t, 1024> small;
  std::vector<uint64_t> large;
  uint64_t* levels = small.data();
  if (level_words * (code.stack - 1) > small.size()) {
    large.resize(level_words * (code.stack - 1));
    levels = large.data();
  }
  for (int64_t row = 0; row < rows; row += step_rows) {
    const int64_t count = std::min(step_rows, rows - row) * words;
    uint64_t* out = bits + row * words;
    const auto level = [&](size_t index) { return index == 0 ? out : levels + (index - 1) * level_words; };
    size_t top = 0;
    for (size_t i = 0; i < code.steps.size(); ++i) {
      const PlaneStep& step = code.steps[i];
      uint64_t* const last = top == 0 ? nullptr : level(top - 1);
      switch (step.step) {
        case Step::leaf:
          code.leaves[step.at]->ops->words(code.leaves[step.at]->args, q_begin + row, count / words, kv_begin, words,
                                           level(top++));
          break;
        case Step::full:
          std::fill_n(level(top++), count, ~uint64_t{0});
          break;
        case Step::empty:
          std::fill_n(level(top++), count, uint64_t{0});
          break;
        case Step::op_not:
          for (int64_t w = 0; w < count; ++w) last[w] = ~last[w];
          break;
        case Step::op_and: {
          uint64_t* const under = level(top - 2);
          for (int64_t w = 0; w < count; ++w) under[w] &= last[w];
          --top;
          break;
        }
        case Step::op_or: {
          uint64_t* const under = level(top - 2);
          for (int64_t w = 0; w < count; ++w) under[w] |= last[w];
          --top;
          break;
        }
        case Step::skip_if_empty:
          if (all_words(last, count, 0)) i = step.at - 1;
          break;
        case Step::skip_if_full:
          if (all_words(last, count, ~uint64_t{0})) i = step.at - 1;
          break;
      }
    }
  }
  // Keys at and beyond s_kv.
  for (int64_t w = std::max<int64_t>(0, (s_kv - kv_begin) / 64); w < words; ++w) {
    const uint64_t kept = bit_range(0, s_kv - kv_begin - 64 * w);
    for (int64_t row = 0; row < rows; ++row) bits[row * words + w] &= kept;
  }
}

bool PlaneMask::is_band() const { return code_->band; }
bool PlaneMask::unread() const { return code_->unread; }

bool PlaneMask::same_rows() const {
  const auto alike = [](const auto& leaf) {
    return leaf->ops->same_rows != nullptr && leaf->ops->same_rows(leaf->args);
  };
  return s_q <= 1 || std::all_of(code_->leaves.begin(), code_->leaves.end(), alike);
}

Interval PlaneMask::interval(int64_t q) const {
  const Code& code = *code_;
  std::array<Interval, max_stack> stack;
  size_t top = 0;
  for (const PlaneStep& step : code.steps) {
    switch (step.step) {
      case Step::leaf:
        stack[top++] = code.leaves[step.at]->ops->interval(code.leaves[step.at]->args, q);
        break;
      case Step::full:
        stack[top++] = {0, s_kv};
        break;
      case Step::empty:
        stack[top++] = {0, 0};
        break;
      case Step::op_not:
        stack[top - 1] = band_not(stack[top - 1], step.from_begin, s_kv);
        break;
      case Step::op_and:
        --top, stack[top - 1] = band_and(stack[top - 1], stack[top]);
        break;
      case Step::op_or:
        --top, stack[top - 1] = band_or(stack[top - 1], stack[top]);
        break;
      case Step::skip_if_empty:
      case Step::skip_if_full:
        break;
    }
  }
  return stack[0];
}

void PlaneMask::intervals(int64_t q_begin, int64_t rows, Interval* out) const {
  const Code& code = *code_;
  // Some rows at a time, so that the upper levels of the stack fit; the lowest level is the output itself.
  std::array<Interval, 512> levels;
  const int64_t step_rows = static_cast<int64_t>(levels.size()) / std::max<uint32_t>(1, code.stack - 1);
  for (int64_t row = 0; row < rows; row += step_rows) {
    const int64_t count = std::min(step_rows, rows - row);
    const auto level = [&](size_t index) {
      return index == 0 ? out + row : levels.data() + static_cast<int64_t>(index - 1) * step_rows;
    };
    size_t top = 0;
    for (const PlaneStep& step : code.steps) {
      Interval* const last = top == 0 ? nullptr : level(top - 1);
      switch (step.step) {
        case Step::leaf:
          code.leaves[step.at]->ops->intervals(code.leaves[step.at]->args, q_begin + row, count, level(top++));
          break;
        case Step::full:
          std::fill_n(level(top++), count, Interval{0, s_kv});
          break;
        case Step::empty:
          std::fill_n(level(top++), count, Interval{0, 0});
          break;
        case Step::op_not:
          for (int64_t i = 0; i < count; ++i) last[i] = band_not(last[i], step.from_begin, s_kv);
          break;
        case Step::op_and: {
          Interval* const under = level(top - 2);
          for (int64_t i = 0; i < count; ++i) under[i] = band_and(under[i], last[i]);
          --top;
          break;
        }
        case Step::op_or: {
          Interval* const under = level(top - 2);
          for (int64_t i = 0; i < count; ++i) under[i] = band_or(under[i], last[i]);
          --top;
          break;
        }
        case Step::skip_if_empty:
        case Step::skip_if_full:
          break;
      }
    }
  }
}

Digest PlaneMask::digest() const { return code_->digest; }

}  // namespace anymask
