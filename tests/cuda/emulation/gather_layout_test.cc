// Which calls are computed over gathered keys, and lists of blocks of rows: they hold what some row keeps, whatever the
// biases.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/plan/gather_layout.h"
#include "mask/mask.h"

namespace anymask {
namespace {

constexpr Device device{DeviceKind::cuda, 0};

struct Lengths {
  int64_t b = 1, s_q = 0, s_kv = 0, h_q = 4, h_kv = 1;
};

AttentionProblem problem_of(const Lengths& l) {
  AttentionProblem problem;
  problem.h_q = l.h_q;
  problem.h_kv = l.h_kv;
  problem.d_qk = problem.d_v = 64;
  problem.max_s_q = l.s_q;
  problem.max_s_kv = l.s_kv;
  for (int64_t i = 0; i < l.b; ++i) problem.sequences.push_back({i, 0, l.s_q, 0, l.s_kv});
  return problem;
}

// Over a bias that lies on a device, one row for all queries; nobody reads it.
BoundMask bound(const std::string& text, const Lengths& l) {
  TensorView view;
  view.data = reinterpret_cast<void*>(uintptr_t{4096});
  view.dtype = DType::bf16;
  view.device = device;
  view.rank = 4;
  view.shape = {1, l.h_kv, 1, l.s_kv};
  view.stride = {l.h_kv * l.s_kv, l.s_kv, l.s_kv, 1};
  const Array array = Array::borrow(view, "b");
  return anymask::bind(Mask::parse(text, {&array, 1}), problem_of(l).sequences, l.h_q, l.h_kv, device);
}

bool holds(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

GatherLayout layout_of(const std::string& text, const Lengths& l) {
  return gather_layout(problem_of(l), bound(text, l));
}

TEST(GatherLayout, BlocksOfACausalCall) {
  const GatherLayout layout = layout_of("topk(@b, 4096, causal)", {.s_q = 65536, .s_kv = 65536, .h_q = 32, .h_kv = 8});
  ASSERT_TRUE(layout.support.yes) << layout.support.reason;
  EXPECT_TRUE(layout.by_rows);
  EXPECT_TRUE(layout.by_columns);
  ASSERT_EQ(layout.blocks.size(), 1u);
  int64_t rows = 0;
  for (const GatherBlock& block : layout.blocks[0]) {
    EXPECT_EQ(block.first, rows);
    EXPECT_LE(block.width, 4096 + block.rows);
    rows += block.rows;
  }
  EXPECT_EQ(rows, 65536);
  EXPECT_LE(layout.blocks[0].size(), 65u);
}

TEST(GatherLayout, OneListWhereRowsAreAlike) {
  for (const char* const text : {"topk(@b, 100)", "topk(@b, 100) & causal", "topk(@b, 100, keys(5, 900)) & causal"}) {
    const GatherLayout layout = layout_of(text, {.b = 2, .s_q = 1000, .s_kv = 1000});
    ASSERT_TRUE(layout.support.yes) << text;
    EXPECT_FALSE(layout.by_rows) << text;
    ASSERT_EQ(layout.blocks.size(), 2u);
    ASSERT_EQ(layout.blocks[1].size(), 1u);
    EXPECT_EQ(layout.blocks[1][0].width, 100);
  }
}

TEST(GatherLayout, ColumnsWhereCandidatesOnlyCome) {
  const Lengths l{.s_q = 3000, .s_kv = 3000, .h_q = 8};
  EXPECT_TRUE(layout_of("topk(@b, 60, causal)", l).by_columns);
  EXPECT_TRUE(layout_of("topk(@b, 60, causal & keys(9, 2900))", l).by_columns);
  const GatherLayout window = layout_of("topk(@b, 60, window(2000, 0))", l);
  EXPECT_TRUE(window.support.yes) << window.support.reason;
  EXPECT_TRUE(window.by_rows);
  EXPECT_FALSE(window.by_columns);
}

TEST(GatherLayout, SaysWhyNot) {
  const Lengths l{.s_q = 1000, .s_kv = 1000};
  EXPECT_TRUE(holds(layout_of("topk(@b, 900, causal)", l).support.reason, "copying costs more"));
  EXPECT_TRUE(holds(layout_of("topk(@b, 0, causal)", l).support.reason, "a window is 0"));
  EXPECT_EQ(layout_of("causal", l).support.reason, "");
  EXPECT_FALSE(layout_of("topk(@b, 10, causal & stride(2))", l).support.yes);
  EXPECT_FALSE(layout_of("topk(@b, 10, causal) | keys(0, 4)", l).support.yes);
  AttentionProblem problem = problem_of(l);
  problem.alibi.present = true;
  EXPECT_TRUE(holds(gather_layout(problem, bound("topk(@b, 10, causal)", l)).support.reason, "ALiBi"));
}

// By rows of random values, among whatever band: no list needs more places than it has.
TEST(GatherLayout, ListsHoldWhatRowsKeep) {
  std::mt19937 rng(3);
  const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
  const char* const bands[] = {
      "causal",         "window(700, 20)", "chunked(500)", "causal & keys(40, 1300)", "causal | prefix(400)",
      "window(90, 400)"};
  int layouts = 0;
  for (int round = 0; round < 60; ++round) {
    const Lengths l{.s_q = pick(1, 700), .s_kv = pick(900, 1500), .h_q = 8};
    const int64_t window = pick(1, 60);
    const std::string band = bands[round % 6];
    const GatherLayout layout = layout_of("topk(@b, " + std::to_string(window) + ", " + band + ")", l);
    if (!layout.support.yes || !layout.by_rows) continue;
    ++layouts;
    const BoundMask candidates = anymask::bind(Mask::parse(band), problem_of(l).sequences, l.h_q, l.h_kv);
    std::vector<int64_t> values;
    for (int64_t key = 0; key < l.s_kv; ++key)
      values.push_back(pick(0, round % 2 == 0 ? 5 : 1 << 20) + key * (round % 3));
    for (const GatherBlock& block : layout.blocks[0]) {
      std::set<int64_t> kept;
      for (int64_t q = block.first; q < block.first + block.rows; ++q) {
        const Interval of = candidates.planes[0].interval(q);
        std::vector<int64_t> keys;
        for (int64_t key = of.begin; key < of.end; ++key) keys.push_back(key);
        std::stable_sort(keys.begin(), keys.end(), [&](int64_t a, int64_t b) {
          return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
        });
        keys.resize(std::min(keys.size(), static_cast<size_t>(window)));
        kept.insert(keys.begin(), keys.end());
      }
      ASSERT_LE(kept.size(), static_cast<size_t>(block.width)) << band << ", window " << window;
    }
  }
  EXPECT_GT(layouts, 20);
}

}  // namespace
}  // namespace anymask
