// What says that all rows keep the same keys is right, and is said where it is plain.
#include <gtest/gtest.h>

#include <random>

#include "mask/bound_mask.h"
#include "mask/kind.h"

namespace anymask {
namespace {

TEST(SameRows, AreTheSame) {
  std::mt19937_64 rng(3);
  int64_t alike = 0;
  for (const KindRow& row : kind_rows()) {
    bool found = false;
    for (int repeat = 0; repeat < 60; ++repeat) {
      const ExampleShape shape{.s_q = 2 + static_cast<int64_t>(rng() % 40),
                               .s_kv = 1 + static_cast<int64_t>(rng() % 150),
                               .batch = 2,
                               .h_q = 4,
                               .h_kv = 2};
      const Mask mask = row.kind.random(rng, shape);
      std::vector<Sequence> sequences;
      for (int64_t b = 0; b < shape.batch; ++b) sequences.push_back({b, 0, shape.s_q, 0, shape.s_kv});
      for (const PlaneMask& plane : anymask::bind(mask, sequences, shape.h_q, shape.h_kv).planes) {
        if (!plane.same_rows()) continue;
        found = true;
        for (int64_t q = 1; q < shape.s_q; ++q)
          for (int64_t kv = 0; kv < shape.s_kv; kv += 64)
            ASSERT_EQ(plane.word(q, kv), plane.word(0, kv)) << mask.str() << ", row " << q;
      }
    }
    if (row.ops.same_rows != nullptr) {
      ++alike;
      EXPECT_TRUE(found) << row.kind.name;
    }
  }
  EXPECT_EQ(alike, 5);
}

TEST(SameRows, OfExpressions) {
  const auto same = [](const char* text, int64_t s_q = 9) {
    const Sequence sequence{0, 0, s_q, 0, 12};
    return anymask::bind(Mask::parse(text), {&sequence, 1}, 1, 1).planes[0].same_rows();
  };
  EXPECT_TRUE(same("keys(1, 7) & ~prefix(2) | keys(9, 10)"));
  EXPECT_TRUE(same("full"));
  EXPECT_FALSE(same("keys(1, 7) & causal"));
  EXPECT_TRUE(same("causal & window(3, 0)", 1));
}

}  // namespace
}  // namespace anymask
