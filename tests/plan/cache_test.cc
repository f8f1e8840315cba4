#include "plan/plan_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "plan_check.h"

namespace anymask {
namespace {

constexpr int64_t default_limit = int64_t{256} << 20;

// Starts each test with an empty cache of the default size.
class PlanCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    set_plan_cache_limit(0);
    set_plan_cache_limit(default_limit);
    before_ = plan_cache_stats();
  }
  void TearDown() override { set_plan_cache_limit(default_limit); }
  int64_t hits() const { return plan_cache_stats().hits - before_.hits; }
  int64_t misses() const { return plan_cache_stats().misses - before_.misses; }

  PlanCacheStats before_{};
};

TileSource source_of(const Mask& mask, int64_t s_q, int64_t s_kv, const PlanRequest& request = {}) {
  return TileSource::make(mask, sequences_of(1, s_q, s_kv), 2, 1, request);
}

TEST_F(PlanCacheTest, TheSameMaskAndLengthsHit) {
  EXPECT_EQ(before_.entries, 0);
  EXPECT_EQ(before_.bytes, 0);
  EXPECT_EQ(before_.limit_bytes, default_limit);
  const Mask mask = Mask::parse("causal & stride(2)");
  const TileSource first = source_of(mask, 200, 200), second = source_of(mask, 200, 200);
  EXPECT_EQ(first.plan(), second.plan());
  EXPECT_EQ(source_of(Mask::parse("causal & stride(2)"), 200, 200).plan(), first.plan());
  EXPECT_EQ(hits(), 2);
  EXPECT_EQ(misses(), 1);
  EXPECT_EQ(plan_cache_stats().entries, 1);
  EXPECT_GE(plan_cache_stats().bytes, first.plan()->stats.bytes);
}

TEST_F(PlanCacheTest, AnythingElseMisses) {
  const Mask mask = Mask::parse("causal & stride(2)");
  const TilePlan* plan = source_of(mask, 200, 200).plan();
  EXPECT_NE(source_of(Mask::parse("causal & stride(3)"), 200, 200).plan(), plan);
  EXPECT_NE(source_of(mask, 201, 200).plan(), plan);
  EXPECT_NE(source_of(mask, 200, 201).plan(), plan);
  EXPECT_NE(source_of(mask, 200, 200, {32, 64}).plan(), plan);
  EXPECT_NE(source_of(mask, 200, 200, {96, 128}).plan(), plan);
  EXPECT_NE(source_of(mask, 200, 200, {96, 64, true}).plan(), plan);
  EXPECT_NE(source_of(mask, 200, 200, {96, 64, false, 1}).plan(), plan);
  EXPECT_NE(TileSource::make(mask, sequences_of(2, 200, 200), 2, 1, {}).plan(), plan);
  EXPECT_NE(TileSource::make(mask, sequences_of(1, 200, 200), 4, 1, {}).plan(), plan);
  EXPECT_NE(TileSource::make(mask, sequences_of(1, 200, 200), 2, 2, {}).plan(), plan);
  EXPECT_EQ(hits(), 0);
  EXPECT_EQ(misses(), 11);
}

// Where sequences lie in their tensors is no part of what is kept.
TEST_F(PlanCacheTest, OnlyLengthsCount) {
  const Mask mask = Mask::parse("stride(2)");
  const std::vector<Sequence> packed{{0, 7, 100, 9, 120}}, batch{{3, 0, 100, 0, 120}};
  EXPECT_EQ(TileSource::make(mask, packed, 1, 1, {}).plan(), TileSource::make(mask, batch, 1, 1, {}).plan());
}

Array borrowed(std::vector<int64_t>& values, const char* name) {
  TensorView view;
  view.data = values.data();
  view.dtype = DType::i64;
  view.rank = 1;
  view.shape = {static_cast<int64_t>(values.size())};
  view.stride = {1};
  return Array::borrow(view, name);
}

TEST_F(PlanCacheTest, ChangedBorrowedContentsGiveAFreshPlan) {
  std::vector<int64_t> offsets{0, 30, 100};
  const Array arrays[] = {borrowed(offsets, "cu")};
  const Mask mask = Mask::parse("documents(@cu) & stride(2)", arrays);
  const TileSource first = source_of(mask, 100, 100);
  const int64_t kept = first.plan()->stats.kept_pairs;
  offsets[1] = 50;
  const TileSource second = source_of(mask, 100, 100);
  EXPECT_NE(second.plan(), first.plan());
  EXPECT_LT(second.plan()->stats.kept_pairs, kept);
  offsets[1] = 30;
  EXPECT_EQ(source_of(mask, 100, 100).plan(), first.plan());  // by content, whoever holds it
  EXPECT_EQ(hits(), 1);
}

// A band found in the cache must not look into arrays that an earlier caller has let go, or changed.
TEST_F(PlanCacheTest, CachedBandsOwnTheirArrays) {
  TileRow row;
  {
    std::vector<int64_t> offsets{0, 30, 100};
    const Array arrays[] = {borrowed(offsets, "cu")};
    EXPECT_FALSE(source_of(Mask::parse("documents(@cu)", arrays), 100, 100).planned());
    offsets = {0, 99, 100};
  }
  std::vector<int64_t> again{0, 30, 100};
  const Array arrays[] = {borrowed(again, "cu")};
  const TileSource source = source_of(Mask::parse("documents(@cu)", arrays), 100, 100);
  EXPECT_EQ(hits(), 1);
  const Grid grid = make_grid(bind_one(Mask::parse("documents([0, 30, 100])"), 100, 100).planes[0], {});
  const std::vector<uint8_t> pairs =
      pairs_of(bind_one(Mask::parse("documents([0, 30, 100])"), 100, 100).planes[0], false);
  for (int32_t m = 0; m < source.m_blocks(0); ++m) {
    source.row(0, m, row);
    check_row(row, pairs, grid, m);
  }
}

TEST_F(PlanCacheTest, LeastRecentlyUsedGoesFirst) {
  const auto mask = [](int n) {  // plans of one size
    return Mask::parse("~keys(" + std::to_string(64 * n) + ", " + std::to_string(64 * n + 1) + ")");
  };
  source_of(mask(1), 500, 500);
  const int64_t one = plan_cache_stats().bytes;
  set_plan_cache_limit(3 * one + one / 2);  // three of them fit
  source_of(mask(2), 500, 500);
  source_of(mask(3), 500, 500);
  ASSERT_EQ(plan_cache_stats().entries, 3);
  source_of(mask(1), 500, 500);  // 2 is now the oldest
  EXPECT_EQ(hits(), 1);
  source_of(mask(4), 500, 500);
  EXPECT_LE(plan_cache_stats().bytes, plan_cache_stats().limit_bytes);
  source_of(mask(1), 500, 500);
  EXPECT_EQ(hits(), 2);
  source_of(mask(2), 500, 500);
  EXPECT_EQ(hits(), 2) << "2 was dropped";
}

TEST_F(PlanCacheTest, LargerThanTheCacheIsNotKept) {
  source_of(Mask::parse("stride(3)"), 64, 64);
  const PlanCacheStats small = plan_cache_stats();
  set_plan_cache_limit(small.bytes);
  const TileSource large = source_of(Mask::parse("stride(3)"), 2000, 2000);
  EXPECT_TRUE(large.planned());
  EXPECT_EQ(plan_cache_stats().entries, 1) << "what was there stays";
}

TEST_F(PlanCacheTest, LimitZeroDisables) {
  const Mask mask = Mask::parse("stride(3)");
  const TileSource held = source_of(mask, 100, 100);
  set_plan_cache_limit(0);
  EXPECT_EQ(plan_cache_stats().entries, 0);
  EXPECT_EQ(plan_cache_stats().bytes, 0);
  const int64_t misses_before = misses();
  const TileSource fresh = source_of(mask, 100, 100);
  EXPECT_NE(fresh.plan(), held.plan());
  EXPECT_EQ(*fresh.plan(), *held.plan());  // what was handed out stays valid
  EXPECT_EQ(misses(), misses_before) << "a disabled cache is not asked";
  set_plan_cache_limit(-5);
  EXPECT_EQ(plan_cache_stats().limit_bytes, 0);
}

TEST_F(PlanCacheTest, ThreadsShareIt) {
  set_plan_cache_limit(64 << 10);  // small: entries come and go
  std::vector<std::thread> threads;
  std::vector<int64_t> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 60; ++i) {
        const int n = 2 + (i + static_cast<int>(t)) % 5;
        const TileSource source = source_of(Mask::parse("stride(" + std::to_string(n) + ")"), 128, 128);
        int64_t expected = 0;
        for (int q = 0; q < 128; ++q) {
          for (int kv = 0; kv < 128; ++kv) expected += (q - kv) % n == 0;
        }
        wrong[t] += source.plan()->stats.kept_pairs != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int64_t>(4, 0));
  EXPECT_LE(plan_cache_stats().bytes, plan_cache_stats().limit_bytes);
  EXPECT_EQ(hits() + misses(), 240);
}

}  // namespace
}  // namespace anymask
