// Shared memory between views: exact where views are interleaved.
#include "api/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace anymask {
namespace {

std::vector<float> memory(1 << 16);

TensorView view(int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> stride) {
  TensorView t;
  t.data = memory.data() + offset;
  t.rank = static_cast<int>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) t.shape[i] = shape[i], t.stride[i] = shape[i] == 1 ? 0 : stride[i];
  return t;
}

TEST(Overlap, QkvInOneTensor) {  // [b 2, s 5, 3, h 4, d 8]
  const std::vector<int64_t> shape = {2, 5, 4, 8}, stride = {480, 96, 8, 1};
  const TensorView q = view(0, shape, stride), k = view(32, shape, stride), v = view(64, shape, stride);
  EXPECT_FALSE(overlap(q, k));
  EXPECT_FALSE(overlap(q, v));
  EXPECT_FALSE(overlap(v, k));
  EXPECT_TRUE(overlap(q, q));
  EXPECT_TRUE(overlap(view(31, shape, stride), k));
  EXPECT_TRUE(overlap(view(25, shape, stride), k));
  EXPECT_FALSE(overlaps_itself(q));
}

TEST(Overlap, HeadsInTurn) {  // even and odd heads of one tensor
  EXPECT_FALSE(overlap(view(0, {9, 4, 8}, {64, 16, 1}), view(8, {9, 4, 8}, {64, 16, 1})));
  EXPECT_TRUE(overlap(view(0, {9, 4, 9}, {64, 16, 1}), view(8, {9, 4, 8}, {64, 16, 1})));
}

TEST(Overlap, Itself) {
  EXPECT_FALSE(overlaps_itself(view(0, {3, 4, 5}, {20, 5, 1})));
  EXPECT_FALSE(overlaps_itself(view(0, {3, 4, 5}, {5, 15, 1})));
  EXPECT_FALSE(overlaps_itself(view(0, {3, 1, 5}, {5, 0, 1})));
  EXPECT_TRUE(overlaps_itself(view(0, {3, 4, 5}, {0, 5, 1})));
  EXPECT_TRUE(overlaps_itself(view(0, {3, 4, 5}, {20, 4, 1})));
  EXPECT_TRUE(overlaps_itself(view(100, {3, 4}, {-4, 1})));
  EXPECT_FALSE(overlaps_itself(view(0, {0, 4}, {0, 1})));
}

// The elements a view touches, one by one.
std::set<int64_t> elements(const TensorView& t) {
  std::set<int64_t> all;
  std::array<int64_t, max_rank> i{};
  const int64_t base = t.as<float>() - memory.data();
  for (i[0] = 0; i[0] < t.shape[0]; ++i[0])
    for (i[1] = 0; i[1] < t.shape[1]; ++i[1])
      for (i[2] = 0; i[2] < t.shape[2]; ++i[2])
        all.insert(base + i[0] * t.stride[0] + i[1] * t.stride[1] + i[2] * t.stride[2]);
  return all;
}

TEST(Overlap, AgreesWithCountingOnRandomViews) {
  std::mt19937_64 rng(3);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  int shared = 0, apart = 0;
  for (int n = 0; n < 4000; ++n) {
    const auto any = [&] {
      return view(2000 + pick(0, 300), {pick(1, 4), pick(1, 5), pick(1, 8)},
                  {pick(-120, 120), pick(-30, 30), pick(1, 2)});
    };
    const TensorView a = any(), b = any();
    const std::set<int64_t> x = elements(a), y = elements(b);
    bool meet = false;
    for (const int64_t e : x) meet = meet || y.count(e) != 0;
    ASSERT_EQ(overlap(a, b), meet) << n;
    ASSERT_EQ(overlap(b, a), meet) << n;
    if (!overlaps_itself(a)) {
      ASSERT_EQ(static_cast<int64_t>(x.size()), a.numel()) << n;
    }
    ++(meet ? shared : apart);
  }
  EXPECT_GT(shared, 500);
  EXPECT_GT(apart, 500);
}

}  // namespace
}  // namespace anymask
