// 3 x 3 cases worked by hand: every number below can be checked on paper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "example.h"

namespace anymask::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Scores are s_ij = q_i[0] * k_j[0]: all else is zero. Values are v_j[0]; dout_i[0] is the gradient of row i.
struct ByHand : Example {
  explicit ByHand(const std::string& text, bool with_sinks = false)
      : Example({.sinks = with_sinks, .dlse = true, .scale = 1, .mask = text}) {
    for (auto* x : {&q, &k, &v, &dout, &dlse}) std::fill(x->begin(), x->end(), 0.0);
  }
  void set(std::vector<double>& x, std::array<double, 3> first) {
    for (size_t i = 0; i < 3; ++i) x[i * 8] = first[i];
  }
  std::array<double, 3> first(const std::vector<double>& x) const { return {x[0], x[8], x[16]}; }
};

void expect_numbers(const std::array<double, 3>& got, const std::array<double, 3>& want) {
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << "row " << i;
}

TEST(ByHand, EqualScoresAverageTheValues) {
  ByHand t("causal");
  t.set(t.v, {3, 5, 10});
  t.forward();
  expect_numbers(t.first(t.out), {3, 4, 6});
  expect_numbers({t.lse[0], t.lse[1], t.lse[2]}, {0, std::log(2), std::log(3)});
}

TEST(ByHand, ScoresAreLogsOfOdds) {  // exp(s) = 1, 2, 4: P = 1/7, 2/7, 4/7
  ByHand t("full");
  t.set(t.q, {1, 1, 0});
  t.set(t.k, {0, std::log(2), std::log(4)});
  t.set(t.v, {7, 14, 28});
  t.forward();
  expect_numbers(t.first(t.out), {1 + 4 + 16, 21, 49.0 / 3});
  expect_numbers({t.lse[0], t.lse[1], t.lse[2]}, {std::log(7), std::log(7), std::log(3)});
}

TEST(ByHand, ASinkTakesItsShareOfTheDenominator) {  // exp(sink) = 1: P = 1/8, 2/8, 4/8, and 1/8 for nothing
  ByHand t("full", true);
  t.sinks = {0};
  t.problem.sinks.data = t.sinks.data();
  t.set(t.q, {1, 1, 1});
  t.set(t.k, {0, std::log(2), std::log(4)});
  t.set(t.v, {8, 8, 8});
  t.forward();
  expect_numbers(t.first(t.out), {7, 7, 7});
  expect_numbers({t.lse[0], t.lse[1], t.lse[2]}, {std::log(8), std::log(8), std::log(8)});

  // Row 0 alone has a gradient: dout = 1, so delta = 7 and dsink = P_sink (0 - delta) = -7/8; ds_j = P_j (8 - 7).
  t.set(t.dout, {1, 0, 0});
  t.backward();
  EXPECT_NEAR(t.dsinks[0], -7.0 / 8, 1e-14);
  expect_numbers(t.first(t.dk), {1.0 / 8, 2.0 / 8, 4.0 / 8});  // q_0 = 1
  expect_numbers(t.first(t.dv), {1.0 / 8, 2.0 / 8, 4.0 / 8});
  expect_numbers(t.first(t.dq), {2.0 / 8 * std::log(2) + 4.0 / 8 * std::log(4), 0, 0});
}

TEST(ByHand, GradientsOfOneRow) {  // P = 1/4, 1/4, 1/2 in row 0; v = 0, 4, 8: out = 5
  ByHand t("full");
  t.set(t.q, {1, 0, 0});
  t.set(t.k, {0, 0, std::log(2)});
  t.set(t.v, {0, 4, 8});
  t.set(t.dout, {2, 0, 0});
  t.forward();
  EXPECT_NEAR(t.out[0], 5, 1e-14);
  t.backward();
  // delta = 2 * 5 = 10; dP = 0, 8, 16; ds = P (dP - delta) = -2.5, -0.5, 3; dq_0 = sum ds k = 3 log 2.
  expect_numbers(t.first(t.dv), {0.5, 0.5, 1});
  expect_numbers(t.first(t.dk), {-2.5, -0.5, 3});
  expect_numbers(t.first(t.dq), {3 * std::log(2), 0, 0});
}

TEST(ByHand, GradientThroughLseIsTheProbability) {  // dL = dlse: ds = P dlse
  ByHand t("full");
  t.set(t.q, {1, 0, 0});
  t.set(t.k, {0, 0, std::log(2)});
  t.dlse = {4, 0, 0};
  t.problem.dlse.data = t.dlse.data();
  t.backward();
  expect_numbers(t.first(t.dk), {1, 1, 2});
  expect_numbers(t.first(t.dv), {0, 0, 0});
}

TEST(ByHand, RowsThatKeepNothing) {
  ByHand t("causal & keys(1, 3)");  // row 0 keeps nothing
  t.set(t.v, {3, 5, 10});
  t.set(t.dout, {1, 1, 1});
  t.dlse = {7, 0, 0};
  t.problem.dlse.data = t.dlse.data();
  t.forward();
  t.backward();
  expect_numbers(t.first(t.out), {0, 5, 7.5});
  EXPECT_EQ(t.lse[0], -kInf);
  expect_numbers(t.first(t.dv), {0, 1.5, 0.5});
  for (const auto* x : {&t.dq, &t.dk, &t.dv})
    for (const double value : *x) EXPECT_TRUE(std::isfinite(value));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(t.dq[i], 0);
}

TEST(ByHand, NothingKeptAtAllWithASink) {
  ByHand t("none", true);
  t.sinks[0] = 2.5;
  t.set(t.v, {3, 5, 10});
  t.set(t.dout, {1, 1, 1});
  t.forward();
  t.backward();
  expect_numbers(t.first(t.out), {0, 0, 0});
  expect_numbers({t.lse[0], t.lse[1], t.lse[2]}, {2.5, 2.5, 2.5});
  for (const auto* x : {&t.dq, &t.dk, &t.dv, &t.dsinks}) EXPECT_THAT(*x, testing::Each(0.0));
}

TEST(ByHand, BiasOfMinusInfinityDropsAKey) {
  Example t({.bias = {1, 1, 1, 3}, .dlse = true, .scale = 1});
  t.bias = {0, -kInf, 0};
  t.problem.bias.data = t.bias.data();
  std::fill(t.q.begin(), t.q.end(), 0.0);
  t.v[0] = 2, t.v[8] = 100, t.v[16] = 4;
  t.forward();
  t.backward();
  EXPECT_NEAR(t.out[0], 3, 1e-14);
  EXPECT_NEAR(t.lse[0], std::log(2), 1e-14);
  EXPECT_EQ(t.dbias[1], 0);
  for (size_t i = 8; i < 16; ++i) EXPECT_EQ(t.dv[i], 0);

  std::fill(t.bias.begin(), t.bias.end(), -kInf);  // and all of them drop the row
  t.forward();
  t.backward();
  EXPECT_THAT(t.out, testing::Each(0.0));
  EXPECT_THAT(t.lse, testing::Each(-kInf));
  for (const auto* x : {&t.dq, &t.dk, &t.dv, &t.dbias}) EXPECT_THAT(*x, testing::Each(0.0));
}

TEST(ByHand, AlibiCountsDistanceFromThePosition) {  // s_q = 1: the row stands at position 2; scores -log(2) * (2, 1, 0)
  Example t({.s_q = 1, .alibi = true, .scale = 1});
  t.alibi[0] = std::log(2);
  std::fill(t.q.begin(), t.q.end(), 0.0);
  t.v[0] = 7, t.v[8] = 14, t.v[16] = 28;
  t.forward();
  EXPECT_NEAR(t.out[0], (7.0 * 1 + 14.0 * 2 + 28.0 * 4) / 7, 1e-13);
  EXPECT_NEAR(t.lse[0], std::log(1.75), 1e-14);
}

TEST(ByHand, SoftcapBendsScoresAndNotTheBias) {
  Example t({.s_q = 1, .s_kv = 2, .bias = {1, 1, 1, 2}, .softcap = 2, .scale = 1});
  std::fill(t.q.begin(), t.q.end(), 0.0);
  std::fill(t.k.begin(), t.k.end(), 0.0);
  t.q[0] = 1, t.k[0] = 2, t.k[8] = 0;
  t.bias = {0, 10};
  t.problem.bias.data = t.bias.data();
  t.forward();
  EXPECT_NEAR(t.lse[0], std::log(std::exp(2 * std::tanh(1.0)) + std::exp(10.0)), 1e-13);
}

TEST(ByHand, LargeScoresDoNotOverflow) {
  ByHand t("full");
  t.set(t.q, {1, -1, 0});
  t.set(t.k, {5000, 5000, -5000});
  t.set(t.v, {1, 3, 100});
  t.forward();
  expect_numbers(t.first(t.out), {2, 100, 104.0 / 3});
  EXPECT_NEAR(t.lse[0], 5000 + std::log(2), 1e-10);
}

}  // namespace
}  // namespace anymask::test
