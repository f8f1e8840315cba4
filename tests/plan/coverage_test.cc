// Counts, pictures and elements against pairs asked one by one.
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "plan_check.h"

namespace anymask {
namespace {

TEST(Count, MatchesPairs) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    std::mt19937_64 rng(seed);
    const int64_t s_q = static_cast<int64_t>(rng() % 400), s_kv = static_cast<int64_t>(rng() % 700);
    const Mask mask = random_mask(seed, {s_q, s_kv, 1, 1, 1}, 3);
    const BoundMask bound = bind_one(mask, s_q, s_kv);
    const PlaneMask& plane = bound.planes[0];
    const std::vector<uint8_t> pairs = pairs_of(plane, false);
    EXPECT_EQ(count_kept(plane), std::count(pairs.begin(), pairs.end(), 1)) << mask.str();
    const int64_t q0 = static_cast<int64_t>(rng() % static_cast<uint64_t>(s_q + 1));
    const int64_t kv0 = static_cast<int64_t>(rng() % static_cast<uint64_t>(s_kv + 1));
    int64_t expected = 0;
    for (int64_t q = q0; q < s_q; ++q) {
      for (int64_t kv = kv0; kv < s_kv; ++kv) expected += pairs[static_cast<size_t>(q * s_kv + kv)];
    }
    EXPECT_EQ(count_kept(plane, {q0, s_q, kv0, s_kv}), expected) << mask.str();
    const std::vector<uint8_t> elements = dense(plane, {q0, s_q, kv0, s_kv});
    ASSERT_EQ(static_cast<int64_t>(elements.size()), (s_q - q0) * (s_kv - kv0));
    for (int64_t q = q0; q < s_q; ++q) {
      for (int64_t kv = kv0; kv < s_kv; ++kv) {
        ASSERT_EQ(elements[static_cast<size_t>((q - q0) * (s_kv - kv0) + kv - kv0)],
                  pairs[static_cast<size_t>(q * s_kv + kv)]);
      }
    }
  }
}

TEST(Coverage, IsTheExactShareOfEachCell) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 rng(seed);
    const int64_t s_q = 1 + static_cast<int64_t>(rng() % 400), s_kv = 1 + static_cast<int64_t>(rng() % 1500);
    const int64_t rows = 1 + static_cast<int64_t>(rng() % 100), cols = 1 + static_cast<int64_t>(rng() % 100);
    const Mask mask = random_mask(seed, {s_q, s_kv, 1, 1, 1}, 3);
    const BoundMask bound = bind_one(mask, s_q, s_kv);
    const std::vector<uint8_t> pairs = pairs_of(bound.planes[0], false);
    const std::vector<float> share = coverage(bound.planes[0], rows, cols);
    ASSERT_EQ(static_cast<int64_t>(share.size()), rows * cols);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t q0 = i * s_q / rows, q1 = std::max(q0 + 1, (i + 1) * s_q / rows);
      for (int64_t j = 0; j < cols; ++j) {
        const int64_t kv0 = j * s_kv / cols, kv1 = std::max(kv0 + 1, (j + 1) * s_kv / cols);
        int64_t kept = 0;
        for (int64_t q = q0; q < q1; ++q) {
          for (int64_t kv = kv0; kv < kv1; ++kv) kept += pairs[static_cast<size_t>(q * s_kv + kv)];
        }
        const double expected = static_cast<double>(kept) / static_cast<double>((q1 - q0) * (kv1 - kv0));
        ASSERT_EQ(share[static_cast<size_t>(i * cols + j)], static_cast<float>(expected))
            << "cell " << i << ", " << j << " of " << rows << " x " << cols << ": " << mask.str();
      }
    }
  }
}

// A hundred thousand positions, as many as a picture shows: ten thousand million pairs, of which few are looked at.
TEST(Coverage, ManyPositions) {
  const int64_t n = 100000;
  const BoundMask bound = bind_one(Mask::parse("causal & window(9999, 0) | keys(0, 100)"), n, n);
  for (const int64_t cells : {int64_t{7}, int64_t{100}, int64_t{3000}}) {
    const std::vector<float> share = coverage(bound.planes[0], cells, cells);
    double kept = 0;
    for (int64_t i = 0; i < cells; ++i) {
      for (int64_t j = 0; j < cells; ++j) {
        const auto rows = static_cast<double>((i + 1) * n / cells - i * n / cells);
        const auto cols = static_cast<double>((j + 1) * n / cells - j * n / cells);
        kept += static_cast<double>(share[static_cast<size_t>(i * cells + j)]) * rows * cols;
      }
    }
    const auto expected = static_cast<double>(count_kept(bound.planes[0]));
    EXPECT_NEAR(kept / expected, 1.0, 1e-6) << cells;
  }
}

TEST(Coverage, PlanesWithoutPairs) {
  for (const auto& [s_q, s_kv] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    const BoundMask bound = bind_one(Mask::parse("full"), s_q, s_kv);
    EXPECT_EQ(coverage(bound.planes[0], 2, 3), std::vector<float>(6, 0.0f));
    EXPECT_EQ(count_kept(bound.planes[0]), 0);
    EXPECT_TRUE(dense(bound.planes[0], {0, s_q, 0, s_kv}).empty());
  }
}

TEST(Coverage, RefusesWhatIsNoRectangle) {
  const BoundMask bound = bind_one(Mask::parse("full"), 10, 20);
  const PlaneMask& plane = bound.planes[0];
  EXPECT_THROW(coverage(plane, 0, 5), Error);
  EXPECT_THROW(coverage(plane, 5, -1), Error);
  EXPECT_THROW(coverage(plane, int64_t{1} << 40, int64_t{1} << 40), Error);
  EXPECT_THROW(dense(plane, {0, 11, 0, 20}), Error);
  EXPECT_THROW(dense(plane, {5, 4, 0, 20}), Error);
  EXPECT_THROW(dense(plane, {0, 10, -1, 20}), Error);
  EXPECT_THROW(count_kept(plane, {0, 10, 0, 21}), Error);
  EXPECT_EQ(count_kept(plane, {3, 3, 0, 20}), 0);
}

}  // namespace
}  // namespace anymask
