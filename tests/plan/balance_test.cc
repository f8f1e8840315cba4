#include "plan/balance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace anymask {
namespace {

TEST(Balance, LongestFirstAndStable) {
  const std::vector<RowCost> rows{{0, 0, 3}, {0, 1, 7}, {0, 2, 3}, {1, 0, 7}, {1, 1, 0}};
  const std::vector<WorkItem> items = balance(rows, 0);
  ASSERT_EQ(items.size(), 5u);
  const std::pair<int32_t, int32_t> order[] = {{0, 1}, {1, 0}, {0, 0}, {0, 2}, {1, 1}};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(items[i].plane, order[i].first);
    EXPECT_EQ(items[i].m_block, order[i].second);
    EXPECT_EQ(items[i].num_splits, 1);
  }
}

TEST(Balance, CutsLongRowsNearEqually) {
  const std::vector<RowCost> rows{{0, 0, 10}, {0, 1, 4}};
  const std::vector<WorkItem> items = balance(rows, 4);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0].cost, 4);  // row 0: 4 + 3 + 3
  EXPECT_EQ(items[0].m_block, 0);
  EXPECT_EQ(items[1].cost, 4);
  EXPECT_EQ(items[1].m_block, 1);
  EXPECT_EQ(items[1].num_splits, 1);
  EXPECT_EQ(items[2].cost, 3);
  EXPECT_EQ(items[3].cost, 3);
  EXPECT_EQ(items[3].num_splits, 3);
  EXPECT_EQ(items[3].split, 2);
}

// A split cost under one tile cuts to single tiles, never to less; an infinite one cuts nothing.
TEST(Balance, ExtremeSplitCosts) {
  const std::vector<RowCost> rows{{0, 0, 5}};
  EXPECT_EQ(balance(rows, 0.01f).size(), 5u);
  EXPECT_EQ(balance(rows, 1).size(), 5u);
  EXPECT_EQ(balance(rows, std::numeric_limits<float>::infinity()).size(), 1u);
  EXPECT_TRUE(balance({}, 1).empty());
}

TEST(Balance, LocatesPiecesInRuns) {
  // Tiles 2 3 | 5 6 7 8 | 9: seven in all.
  const std::vector<anymask::Run> runs{
      {2, 4, RunKind::full, 0}, {5, 9, RunKind::partial, 0}, {9, 10, RunKind::full, 0}};
  std::mt19937_64 rng(3);
  for (int32_t pieces = 1; pieces <= 9; ++pieces) {
    std::vector<int32_t> tiles;
    float total = 0;
    for (int32_t piece = 0; piece < pieces; ++piece) {
      WorkItem item;
      item.split = piece;
      item.num_splits = pieces;
      locate(runs, item);
      total += item.cost;
      if (piece >= 7) {
        EXPECT_EQ(item.run_begin, item.run_end);  // more pieces than tiles: nothing left
        EXPECT_EQ(item.cost, 0);
      }
      for (int32_t r = item.run_begin; r < item.run_end; ++r) {
        const int32_t begin = r == item.run_begin ? item.n_begin : runs[static_cast<size_t>(r)].n_begin;
        const int32_t end = r == item.run_end - 1 ? item.n_end : runs[static_cast<size_t>(r)].n_end;
        ASSERT_LT(begin, end);
        for (int32_t n = begin; n < end; ++n) tiles.push_back(n);
      }
    }
    EXPECT_EQ(tiles, (std::vector<int32_t>{2, 3, 5, 6, 7, 8, 9})) << pieces << " pieces";
    EXPECT_EQ(total, 7);
  }
}

TEST(Balance, LocatesNothingInAnEmptyRow) {
  WorkItem item;
  item.run_end = 5;
  locate({}, item);
  EXPECT_EQ(item.run_begin, 0);
  EXPECT_EQ(item.run_end, 0);
  EXPECT_EQ(item.cost, 0);
}

}  // namespace
}  // namespace anymask
