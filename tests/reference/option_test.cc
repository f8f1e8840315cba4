// What must not matter, does not: strides, packing, threads, the spelling of a mask.
#include <gtest/gtest.h>

#include <cmath>

#include "example.h"

namespace anymask::test {
namespace {

const Shape kShape = {.b = 2,
                      .s_q = 5,
                      .s_kv = 7,
                      .h_q = 4,
                      .h_kv = 2,
                      .d_qk = 8,
                      .d_v = 16,
                      .bias = {2, 4, 5, 7},
                      .alibi = true,
                      .sinks = true,
                      .dlse = true,
                      .softcap = 4,
                      .mask = "causal & window(3, 0)"};

void run(Example& t) {
  t.forward();
  t.backward();
}
void expect_equal(const Example& a, const Example& b) {
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.lse, b.lse);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
  EXPECT_EQ(a.dbias, b.dbias);
  EXPECT_EQ(a.dsinks, b.dsinks);
}

TEST(Options, ThreadsDoNotMatter) {
  Example one(kShape), three(kShape);
  one.problem.num_threads = 1;
  three.problem.num_threads = 3;
  run(one);
  run(three);
  expect_equal(one, three);
}

TEST(Options, TheSpellingOfAMaskDoesNotMatter) {
  Shape other = kShape;
  other.mask = "~(~causal | ~window(3, 0)) & full | none";
  Example a(kShape), b(other);
  run(a);
  run(b);
  expect_equal(a, b);
}

TEST(Options, PackedEqualsSequenceBySequence) {
  const Shape packed = {.s_q = 8,
                        .s_kv = 9,
                        .h_q = 2,
                        .h_kv = 1,
                        .cu_q = {0, 3, 3, 8},
                        .cu_kv = {0, 3, 5, 9},
                        .sinks = true,
                        .dlse = true,
                        .softcap = 2,
                        .mask = "causal"};
  Example all(packed);
  run(all);
  for (size_t n = 0; n < 3; ++n) {
    const int64_t q0 = packed.cu_q[n], rows = packed.cu_q[n + 1] - q0, k0 = packed.cu_kv[n],
                  keys = packed.cu_kv[n + 1] - k0;
    Shape single = packed;
    single.s_q = rows, single.s_kv = keys, single.cu_q = {}, single.cu_kv = {};
    Example one(single);
    const auto slice = [](const std::vector<double>& x, int64_t begin, int64_t n_tokens, int64_t row) {
      return std::vector<double>(x.begin() + begin * row, x.begin() + (begin + n_tokens) * row);
    };
    const auto put = [](std::vector<double>& x, const std::vector<double>& values) {
      std::copy(values.begin(), values.end(), x.begin());
    };
    put(one.q, slice(all.q, q0, rows, 16));
    put(one.dout, slice(all.dout, q0, rows, 16));
    put(one.k, slice(all.k, k0, keys, 8));
    put(one.v, slice(all.v, k0, keys, 8));
    put(one.sinks, all.sinks);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < rows; ++i)
        one.dlse[static_cast<size_t>(h * rows + i)] = all.dlse[static_cast<size_t>(h * 8 + q0 + i)];
    run(one);
    EXPECT_EQ(one.out, slice(all.out, q0, rows, 16));
    EXPECT_EQ(one.dq, slice(all.dq, q0, rows, 16));
    EXPECT_EQ(one.dk, slice(all.dk, k0, keys, 8));
    EXPECT_EQ(one.dv, slice(all.dv, k0, keys, 8));
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < rows; ++i)
        EXPECT_EQ(one.lse[static_cast<size_t>(h * rows + i)], all.lse[static_cast<size_t>(h * 8 + q0 + i)]);
  }
}

TEST(Options, StridesDoNotMatter) {
  Example plain(kShape), strided(kShape);
  // k and v as [b, h, s, d] with NaN in between; out written into every other row of a larger tensor.
  const auto spread = [](const std::vector<double>& x, Tensor4& t, int64_t b, int64_t s, int64_t h, int64_t d) {
    std::vector<double> y(static_cast<size_t>(b * h * s * (d + 3)), std::numeric_limits<double>::quiet_NaN());
    for (int64_t i = 0; i < b; ++i)
      for (int64_t j = 0; j < s; ++j)
        for (int64_t n = 0; n < h; ++n)
          for (int64_t e = 0; e < d; ++e)
            y[static_cast<size_t>(((i * h + n) * s + j) * (d + 3) + e)] =
                x[static_cast<size_t>(((i * s + j) * h + n) * d + e)];
    t.stride_b = h * s * (d + 3), t.stride_h = s * (d + 3), t.stride_s = d + 3;
    return y;
  };
  std::vector<double> k = spread(strided.k, strided.problem.k, 2, 7, 2, 8);
  strided.problem.k.data = k.data();
  std::vector<double> v = spread(strided.v, strided.problem.v, 2, 7, 2, 16);
  strided.problem.v.data = v.data();
  std::vector<double> out(2 * strided.out.size(), -1.0);
  strided.problem.out.data = out.data();
  strided.problem.out.stride_b *= 2, strided.problem.out.stride_s *= 2;
  run(plain);
  run(strided);
  EXPECT_EQ(plain.dq, strided.dq);
  EXPECT_EQ(plain.dk, strided.dk);
  constexpr size_t row = 4 * 16;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t line = i / row;
    EXPECT_EQ(out[i], line % 2 == 0 ? plain.out[line / 2 * row + i % row] : -1.0);
  }
}

TEST(Options, ExpandedInputsAreReadAgain) {
  Example plain(kShape), expanded(kShape);
  for (size_t i = 0; i < plain.k.size() / 2; ++i) plain.k[plain.k.size() / 2 + i] = plain.k[i];
  expanded.problem.k.stride_b = 0;
  run(plain);
  run(expanded);
  expect_equal(plain, expanded);
}

TEST(Options, NoRowsOrNoKeys) {
  Example no_rows({.s_q = 0, .s_kv = 3, .dlse = true});
  run(no_rows);
  for (const double x : no_rows.dk) EXPECT_EQ(x, 0);
  Example no_keys({.s_q = 3, .s_kv = 0, .h_q = 2, .bias = {1, 1, 3, 0}, .dlse = true});
  run(no_keys);
  for (const double x : no_keys.out) EXPECT_EQ(x, 0);
  for (const double x : no_keys.lse) EXPECT_EQ(x, -std::numeric_limits<double>::infinity());
  for (const double x : no_keys.dq) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace anymask::test
