// Gradients of the reference against central differences of its own forward, element by element, in double.
#include <gtest/gtest.h>

#include <cmath>

#include "example.h"

namespace anymask::test {
namespace {

// dL/dx by the reference, against (L(x + h) - L(x - h)) / 2h for each element of x.
void expect_derivative(Example& example, std::vector<double>& x, const std::vector<double>& dx, const char* name) {
  ASSERT_EQ(x.size(), dx.size()) << name;
  constexpr double h = 1e-5;  // errors h^2 f'''/6 and eps L / h: both near 1e-10 here
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + h;
    const double above = example.loss();
    x[i] = kept - h;
    const double below = example.loss();
    x[i] = kept;
    EXPECT_NEAR(dx[i], (above - below) / (2 * h), 1e-7) << name << "[" << i << "]";
    largest = std::max(largest, std::fabs(dx[i]));
  }
  EXPECT_GT(largest, 1e-3) << name << ": a gradient of zeros would prove nothing";
}

void expect_gradients(const Shape& shape) {
  Example example(shape);
  example.forward();
  example.backward();
  expect_derivative(example, example.q, example.dq, "dq");
  expect_derivative(example, example.k, example.dk, "dk");
  expect_derivative(example, example.v, example.dv, "dv");
  if (!shape.bias.empty()) expect_derivative(example, example.bias, example.dbias, "dbias");
  if (shape.sinks) expect_derivative(example, example.sinks, example.dsinks, "dsinks");
}

TEST(Gradient, Plain) { expect_gradients({.s_q = 4, .s_kv = 5}); }
TEST(Gradient, CausalThroughLse) { expect_gradients({.s_q = 4, .s_kv = 5, .dlse = true, .mask = "causal"}); }
TEST(Gradient, GroupedHeadsOfTwoDimensions) {
  expect_gradients({.b = 2, .s_q = 3, .s_kv = 4, .h_q = 4, .h_kv = 2, .d_qk = 8, .d_v = 16, .mask = "causal"});
}
TEST(Gradient, Softcap) {
  expect_gradients({.s_q = 4, .s_kv = 4, .dlse = true, .softcap = 1.5, .mask = "window(2, 1)"});
}
TEST(Gradient, SinksThroughOutAndLse) {
  expect_gradients({.s_q = 4, .s_kv = 4, .h_q = 2, .sinks = true, .dlse = true, .mask = "causal"});
}
TEST(Gradient, SinkOfARowThatKeepsNothing) {  // there lse is the sink itself
  expect_gradients({.s_q = 5, .s_kv = 3, .h_q = 2, .sinks = true, .dlse = true, .mask = "causal"});
}
TEST(Gradient, RowsThatKeepNothing) { expect_gradients({.s_q = 6, .s_kv = 3, .dlse = true, .mask = "causal"}); }

class BiasGradientTest : public testing::TestWithParam<std::vector<int64_t>> {};
TEST_P(BiasGradientTest, EveryBroadcastSumsWhatItSpreads) {
  expect_gradients({.b = 2,
                    .s_q = 3,
                    .s_kv = 4,
                    .h_q = 4,
                    .h_kv = 2,
                    .bias = GetParam(),
                    .dlse = true,
                    .softcap = 2,
                    .mask = "causal"});
}
INSTANTIATE_TEST_SUITE_P(Shapes, BiasGradientTest,
                         testing::Values(std::vector<int64_t>{2, 4, 3, 4}, std::vector<int64_t>{1, 1, 1, 4},
                                         std::vector<int64_t>{1, 4, 3, 4}, std::vector<int64_t>{2, 2, 1, 4},
                                         std::vector<int64_t>{2, 1, 3, 4}, std::vector<int64_t>{1, 2, 3, 4}));

TEST(Gradient, Everything) {
  expect_gradients({.b = 2,
                    .s_q = 3,
                    .s_kv = 5,
                    .h_q = 4,
                    .h_kv = 2,
                    .d_qk = 16,
                    .d_v = 8,
                    .bias = {2, 4, 3, 5},
                    .alibi = true,
                    .sinks = true,
                    .dlse = true,
                    .softcap = 3,
                    .mask = "window(2, 0) | keys(0, 1)"});
}
TEST(Gradient, PackedEverything) {  // the second sequence has no keys, the third no rows
  expect_gradients({.s_q = 6,
                    .s_kv = 7,
                    .h_q = 2,
                    .h_kv = 1,
                    .cu_q = {0, 3, 5, 5, 6},
                    .cu_kv = {0, 4, 4, 6, 7},
                    .bias = {4, 2, 3, 4},
                    .alibi = true,
                    .sinks = true,
                    .dlse = true,
                    .softcap = 3,
                    .mask = "causal"});
}

}  // namespace
}  // namespace anymask::test
