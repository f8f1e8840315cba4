// The yardstick rounds as its type does: close to the reference, and not equal to it.
#include <gtest/gtest.h>

#include <cmath>

#include "example.h"
#include "reference/elements.h"

namespace anymask::test {
namespace {

// Largest difference between naive (out, dq, dk, dv, dbias) in `dtype` and the reference on the same rounded inputs.
struct Errors {
  double out, gradients;
};
Errors errors(DType dtype, const Shape& shape) {
  Example exact(shape), rough(shape);
  // Round the inputs where they stand, then give the yardstick a copy in the type.
  std::vector<std::vector<uint8_t>> memory;
  const auto convert = [&](std::vector<double>& x, std::vector<double>& same, auto& view) {
    memory.emplace_back(x.size() * static_cast<size_t>(size_of(dtype)));
    for (size_t i = 0; i < x.size(); ++i) {
      store(memory.back().data(), dtype, static_cast<int64_t>(i), x[i]);
      x[i] = same[i] = load(memory.back().data(), dtype, static_cast<int64_t>(i));
    }
    view.data = memory.back().data();
    view.dtype = dtype;
  };
  AttentionProblem& p = rough.problem;
  convert(rough.q, exact.q, p.q);
  convert(rough.k, exact.k, p.k);
  convert(rough.v, exact.v, p.v);
  convert(rough.dout, exact.dout, p.dout);
  p.dtype = dtype;
  naive_backend().forward(p, rough.mask, {});  // outputs stay double: the rounding seen is that of the arithmetic
  naive_backend().backward(p, rough.mask, {});
  exact.forward();
  exact.backward();
  Errors e = {0, 0};
  for (size_t i = 0; i < exact.out.size(); ++i) e.out = std::max(e.out, std::fabs(exact.out[i] - rough.out[i]));
  for (const auto& [a, b] :
       {std::pair(&exact.dq, &rough.dq), std::pair(&exact.dk, &rough.dk), std::pair(&exact.dv, &rough.dv),
        std::pair(&exact.dbias, &rough.dbias), std::pair(&exact.dsinks, &rough.dsinks)})
    for (size_t i = 0; i < a->size(); ++i) e.gradients = std::max(e.gradients, std::fabs((*a)[i] - (*b)[i]));
  return e;
}

class NaiveTest : public testing::TestWithParam<std::tuple<DType, double>> {};

TEST_P(NaiveTest, RoundsAsItsType) {
  const auto [dtype, epsilon] = GetParam();
  const Shape shape = {.b = 2,
                       .s_q = 24,
                       .s_kv = 40,
                       .h_q = 4,
                       .h_kv = 2,
                       .d_qk = 16,
                       .d_v = 24,
                       .bias = {1, 4, 24, 40},
                       .alibi = true,
                       .sinks = true,
                       .dlse = true,
                       .softcap = 5,
                       .mask = "causal & window(20, 0) | keys(0, 2)"};
  const Errors e = errors(dtype, shape);
  EXPECT_GT(e.out, epsilon / 64);
  EXPECT_LT(e.out, epsilon * 64);  // ALiBi makes scores of some 100: their rounding is that much more
  EXPECT_GT(e.gradients, epsilon / 64);
  EXPECT_LT(e.gradients, epsilon * 128);
}
INSTANTIATE_TEST_SUITE_P(Types, NaiveTest,
                         testing::Values(std::tuple(DType::f32, 0x1p-24), std::tuple(DType::f16, 0x1p-11),
                                         std::tuple(DType::bf16, 0x1p-8)),
                         [](const auto& test) { return std::string(name_of(std::get<0>(test.param))); });

TEST(Naive, EmptyRowsAsDefined) {
  Example t({.s_q = 5, .s_kv = 3, .dlse = true, .mask = "causal"});
  naive_backend().forward(t.problem, t.mask, {});
  naive_backend().backward(t.problem, t.mask, {});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(t.lse[i], -std::numeric_limits<double>::infinity());
    for (size_t d = 0; d < 8; ++d) EXPECT_EQ(t.out[i * 8 + d], 0);
    for (size_t d = 0; d < 8; ++d) EXPECT_EQ(t.dq[i * 8 + d], 0);
  }
  for (const auto* x : {&t.dq, &t.dk, &t.dv})
    for (const double value : *x) EXPECT_TRUE(std::isfinite(value));
}

TEST(Naive, RefusesDouble) {
  const Example t({});
  EXPECT_FALSE(naive_backend().supports(t.problem, Direction::forward).yes);
}

TEST(Store, RoundsOnceToTheNearest) {
  uint16_t x = 0;
  // Above the midpoint of 1 and the next bfloat16 by less than float32 shows: twice rounded it would fall to the even
  // neighbour, 1.
  store(&x, DType::bf16, 0, 1 + 0x1p-8 + 0x1p-40);
  EXPECT_EQ(bf16_to_f32(x), 1 + 0x1p-7f);
  store(&x, DType::bf16, 0, 1 + 0x1p-8);
  EXPECT_EQ(bf16_to_f32(x), 1.0f);
  store(&x, DType::bf16, 0, -(1 + 0x1p-8 + 0x1p-40));
  EXPECT_EQ(bf16_to_f32(x), -(1 + 0x1p-7f));
  store(&x, DType::f16, 0, 1 + 0x1p-11 + 0x1p-40);
  EXPECT_EQ(f16_to_f32(x), 1 + 0x1p-10f);
  store(&x, DType::f16, 0, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(f16_to_f32(x), -std::numeric_limits<float>::infinity());
  store(&x, DType::bf16, 0, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(bf16_to_f32(x)));
}

}  // namespace
}  // namespace anymask::test
