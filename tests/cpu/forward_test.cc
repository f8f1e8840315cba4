// The CPU forward against the reference: every case, type, target, layout; and what must hold to the bit.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <thread>

#include "core/error.h"
#include "cpu/backward_case.h"
#include "cpu/targets.h"
#include "mask/bound_mask.h"
#include "mask/registry.h"

namespace anymask::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The constant beside twice the naive error: what the type's last bit is worth next to 1, times two.
double last_bits(DType dtype) { return std::ldexp(1.0, dtype == DType::bf16 ? -7 : dtype == DType::f16 ? -10 : -21); }

// out and lse of one run; poisoned before it.
struct Result {
  Buffer out, lse;
};

// The same layout as the call's own out, or contiguous fp64 (the reference).
Result run(Call& call, const cases::AttentionCase& c, const Backend& backend, bool wide = false, int threads = 0) {
  const std::vector<int64_t> shape = {c.b, c.s_q, c.h_q, c.d_v};
  Result r;
  if (wide) {
    r.out = Buffer::contiguous(DType::f64, shape);
  } else {
    const Buffer& like = call.out();
    r.out = Buffer(like.dtype(), shape, {like.stride(0), like.stride(1), like.stride(2), like.stride(3)});
  }
  r.lse = Buffer::contiguous(wide ? DType::f64 : DType::f32, {c.b, c.h_q, c.s_q});
  AttentionProblem p = call.problem;
  p.num_threads = threads;
  p.out = {r.out.data(), r.out.dtype(), p.packed ? 0 : r.out.stride(0), r.out.stride(1), r.out.stride(2), true};
  p.lse = {r.lse.data(), r.lse.dtype(), p.packed ? 0 : r.lse.stride(0), r.lse.stride(1), r.lse.stride(2), true};
  backend.forward(p, call.mask, {});
  return r;
}

// Equal infinities are no difference; NaN is an infinite one.
double difference(const std::vector<double>& x, const std::vector<double>& y) {
  double max = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;
    const double d = std::fabs(x[i] - y[i]);
    max = std::max(max, std::isnan(d) ? infinity : d);
  }
  return max;
}

double scale_of(const std::vector<double>& x) {
  double max = 1;
  for (const double v : x) {
    if (std::isfinite(v)) max = std::max(max, std::fabs(v));
  }
  return max;
}

void expect_close(Call& call, const cases::AttentionCase& c, DType dtype) {
  Result exact = run(call, c, reference_backend(), true), naive = run(call, c, naive_backend()),
         got = run(call, c, cpu_backend());
  const std::vector<double> out = exact.out.values(), lse = exact.lse.values();
  EXPECT_LE(difference(got.out.values(), out),
            2 * difference(naive.out.values(), out) + last_bits(dtype) * scale_of(out))
      << "out";
  EXPECT_LE(difference(got.lse.values(), lse),
            2 * difference(naive.lse.values(), lse) + last_bits(DType::f32) * scale_of(lse))
      << "lse";
  EXPECT_TRUE(got.out.surroundings_untouched());
}

// Runs the body with each usable target in force.
void on_each_target(const std::function<void()>& body) {
  for (const std::string& target : cpu_targets()) {
    SCOPED_TRACE(target);
    force_cpu_target(target);
    body();
  }
  force_cpu_target("");
}

// Beyond the shared table: many tiles, split rows, folded heads, tiles partly beyond the edge, windows inside
// micro-tiles.
std::vector<cases::AttentionCase> all_cases() {
  std::vector<cases::AttentionCase> list = cases::small_cases();
  const std::vector<cases::AttentionCase> more = {
      {.name = "full-q1-k3001-h8x2-d64", .mask = "full", .s_q = 1, .s_kv = 3001, .h_q = 8, .h_kv = 2},
      {.name = "causal-q5-k2500-b2-h6x2-d40",
       .mask = "causal",
       .b = 2,
       .s_q = 5,
       .s_kv = 2500,
       .h_q = 6,
       .h_kv = 2,
       .d_qk = 40,
       .d_v = 24},
      {.name = "causal-s700-h2-d64", .mask = "causal", .s_q = 700, .s_kv = 700, .h_q = 2, .h_kv = 2},
      {.name = "window-s900-h1-d64", .mask = "causal & window(70, 0)", .s_q = 900, .s_kv = 900},
      {.name = "narrow-window-s500-h3x1-d16",
       .mask = "window(3, 2)",
       .s_q = 500,
       .s_kv = 500,
       .h_q = 3,
       .h_kv = 1,
       .d_qk = 16,
       .d_v = 16},
      {.name = "holes-s400-h2-d64",
       .mask = "stride(37) | keys(100, 103) & ~positions(50, 60)",
       .s_q = 400,
       .s_kv = 400,
       .h_q = 2,
       .h_kv = 2},
      {.name = "per-head-of-a-group-q20-k300-h4x2-d32",
       .mask = "per_head([causal, full, none, window(3, 3)])",
       .s_q = 20,
       .s_kv = 300,
       .h_q = 4,
       .h_kv = 2,
       .d_qk = 32,
       .d_v = 32},
      {.name = "all-options-q130-k200-h4x2-d24x40",
       .mask = "causal & window(90, 0)",
       .b = 2,
       .s_q = 130,
       .s_kv = 200,
       .h_q = 4,
       .h_kv = 2,
       .d_qk = 24,
       .d_v = 40,
       .bias = "bhq",
       .softcap = 3,
       .alibi = true,
       .sinks = true},
      {.name = "all-options-q3-k1500-h4x2-d64",
       .mask = "causal",
       .s_q = 3,
       .s_kv = 1500,
       .h_q = 4,
       .h_kv = 2,
       .bias = "1gq",
       .softcap = 8,
       .alibi = true,
       .sinks = true},
      {.name = "packed-documents-h4x2-d32",
       .mask = "causal",
       .s_q = 400,
       .s_kv = 400,
       .h_q = 4,
       .h_kv = 2,
       .d_qk = 32,
       .d_v = 32,
       .bias = "b1q",
       .cu_seqlens_q = {0, 10, 11, 60, 60, 95, 400}},
  };
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

class EachType : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Forward, EachType, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST_P(EachType, MatchesTheReference) {
  for (const cases::AttentionCase& c : all_cases()) {
    SCOPED_TRACE(c.name);
    Call call(c, {.dtype = GetParam(), .bias_fp32 = false});
    on_each_target([&] { expect_close(call, c, GetParam()); });
  }
}

TEST_P(EachType, MatchesTheReferenceInEveryLayout) {
  for (const cases::AttentionCase& c : all_cases()) {
    for (const Layout layout : {Layout::head_major_padded, Layout::expanded}) {
      SCOPED_TRACE(c.name);
      Call call(c, {.dtype = GetParam(), .layout = layout, .seed = 2});
      on_each_target([&] { expect_close(call, c, GetParam()); });
    }
  }
}

TEST_P(EachType, MatchesTheReferenceUnderRandomMasks) {
  std::mt19937_64 rng(5);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto pick = [&](std::vector<int64_t> from) { return from[rng() % from.size()]; };
    cases::AttentionCase c;
    c.mask = "full";
    c.b = pick({1, 2});
    c.h_kv = pick({1, 2});
    c.h_q = c.h_kv * pick({1, 2, 3});
    c.s_q = pick({1, 5, 47, 96, 97, 130});
    c.s_kv = pick({1, 30, 64, 65, 200, 330});
    c.d_qk = pick({8, 24, 64, 72});
    c.d_v = pick({8, 16, 40, 64});
    c.sinks = pick({0, 1}) == 1;
    c.softcap = pick({0, 0, 4}) == 4 ? 4 : 0;
    Call call(c, {.dtype = GetParam(), .seed = seed});
    call.mask = random_mask(seed, {c.s_q, c.s_kv, c.b, c.h_q, c.h_kv}, 4);
    SCOPED_TRACE(cat("seed ", seed, " mask ", call.mask.str()));
    on_each_target([&] { expect_close(call, c, GetParam()); });
  }
}

TEST_P(EachType, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const cases::AttentionCase& c : all_cases()) {
    SCOPED_TRACE(c.name);
    Call call(c, {.dtype = GetParam()});
    const Result one = run(call, c, cpu_backend(), false, 1);
    for (const int threads : {1, 2, 3, 7}) {
      const Result again = run(call, c, cpu_backend(), false, threads);
      EXPECT_EQ(again.out.bytes(), one.out.bytes()) << threads;
      EXPECT_EQ(again.lse.bytes(), one.lse.bytes()) << threads;
    }
  }
}

// One mask said as a band and as an array of booleans: without a plan, and with one.
TEST_P(EachType, GivesTheSameBitsHoweverTheMaskIsSaid) {
  for (const char* text : {"causal", "causal & window(40, 0)", "documents([0, 30, 31, 150, 300])", "chunked(70)",
                           "keys(3, 250)", "full"}) {
    SCOPED_TRACE(text);
    for (const int64_t s_q : {300, 7}) {
      const cases::AttentionCase c{.name = "",
                                   .mask = std::string(text).find("documents") == 0 && s_q != 300 ? "causal" : text,
                                   .s_q = s_q,
                                   .s_kv = 300,
                                   .h_q = 4,
                                   .h_kv = 2};
      Call call(c, {.dtype = GetParam()});
      const BoundMask bound = anymask::bind(call.mask, call.problem.sequences, c.h_q, c.h_kv);
      std::vector<uint8_t> kept(static_cast<size_t>(c.s_q * c.s_kv));
      for (int64_t i = 0; i < c.s_q * c.s_kv; ++i)
        kept[static_cast<size_t>(i)] = bound.planes[0].keep(i / c.s_kv, i % c.s_kv);
      TensorView view;
      view.data = kept.data();
      view.dtype = DType::boolean;
      view.rank = 2;
      view.shape = {c.s_q, c.s_kv};
      view.stride = {c.s_kv, 1};
      const std::vector<Array> arrays = {Array::own(view, "kept")};
      on_each_target([&] {
        const Result band = run(call, c, cpu_backend());
        const Mask said = call.mask;
        call.mask = Mask::parse("dense(@kept)", arrays);
        const Result planned = run(call, c, cpu_backend());
        call.mask = said;
        EXPECT_EQ(planned.out.bytes(), band.out.bytes());
        EXPECT_EQ(planned.lse.bytes(), band.lse.bytes());
      });
    }
  }
}

// A key a row drops must not matter to it, whatever it holds; a key it keeps must.
TEST_P(EachType, DroppedKeysNeverMatter) {
  struct Drop {
    const char* mask;
    int64_t s_q;
    std::vector<int64_t> keys;
  };
  const std::vector<Drop> drops = {{"causal", 300, {150, 151, 299}},
                                   {"keys(0, 100)", 130, {100, 107, 200, 299}},
                                   {"stride(5)", 200, {3, 77, 200}},
                                   {"causal", 3, {298, 299}}};
  for (const Drop& drop : drops) {
    const cases::AttentionCase c{
        .name = drop.mask, .mask = drop.mask, .s_q = drop.s_q, .s_kv = 300, .h_q = 2, .h_kv = 1, .d_qk = 24, .d_v = 40};
    SCOPED_TRACE(c.name);
    on_each_target([&] {
      Call call(c, {.dtype = GetParam()});
      const std::vector<double> before = run(call, c, cpu_backend()).out.values();
      const BoundMask bound = anymask::bind(call.mask, call.problem.sequences, c.h_q, c.h_kv);
      for (const int64_t key : drop.keys) {
        for (int64_t i = 0; i < c.d_v; ++i) call.v().set(key * c.d_v + i, i % 3 == 0 ? infinity : std::nan(""));
        for (int64_t i = 0; i < c.d_qk; ++i) call.k().set(key * c.d_qk + i, i % 2 == 0 ? -infinity : std::nan(""));
      }
      const std::vector<double> after = run(call, c, cpu_backend()).out.values();
      for (int64_t q = 0; q < drop.s_q; ++q) {
        bool keeps_poison = false;
        for (const int64_t key : drop.keys) keeps_poison = keeps_poison || bound.planes[0].keep(q, key);
        for (int64_t i = q * c.h_q * c.d_v; i < (q + 1) * c.h_q * c.d_v; ++i) {
          const auto n = static_cast<size_t>(i);
          if (keeps_poison) {
            ASSERT_TRUE(std::isnan(after[n])) << "row " << q;
          } else {
            ASSERT_NEAR(after[n], before[n], 2 * last_bits(GetParam())) << "row " << q;
          }
        }
      }
    });
  }
}

TEST(Forward, InfiniteBiasEmptiesARow) {
  cases::AttentionCase c{.name = "", .mask = "causal", .s_q = 70, .s_kv = 70, .h_q = 2, .h_kv = 2, .bias = "11q"};
  Call call(c, {});
  auto* bias = static_cast<float*>(call.problem.bias.data);
  for (int64_t key = 0; key < 70; ++key)
    bias[33 * call.problem.bias.stride_q + key * call.problem.bias.stride_kv] = -std::numeric_limits<float>::infinity();
  on_each_target([&] {
    const Result r = run(call, c, cpu_backend());
    for (int64_t i = 33 * 2 * 64; i < 34 * 2 * 64; ++i) EXPECT_EQ(r.out.get(i), 0);
    EXPECT_EQ(r.lse.get(33), -infinity);
    EXPECT_EQ(r.lse.get(70 + 33), -infinity);
    expect_close(call, c, DType::f32);
  });
}

// Masks are often given as biases of -FLT_MAX: a row whose kept keys all have it attends to them alike, and what is
// larger wins. Times log2(e) these biases would be infinite.
TEST(Forward, BiasAtTheEndsOfFloat) {
  cases::AttentionCase c{.name = "", .mask = "causal", .s_q = 70, .s_kv = 70, .h_q = 2, .h_kv = 2, .bias = "11q"};
  Call call(c, {});
  const auto bias = [&](int64_t row, int64_t key) -> float& {
    return static_cast<float*>(
        call.problem.bias.data)[row * call.problem.bias.stride_q + key * call.problem.bias.stride_kv];
  };
  constexpr float lowest = std::numeric_limits<float>::lowest();
  for (int64_t key = 0; key < 70; ++key) {
    bias(33, key) = lowest;
    bias(34, key) = key < 3 ? -3e38f : lowest;
    bias(35, key) = key == 20 ? lowest : -std::numeric_limits<float>::infinity();
  }
  bias(36, 2) = 3e38f;
  on_each_target([&] {
    const Result r = run(call, c, cpu_backend()), exact = run(call, c, reference_backend(), true);
    EXPECT_LE(difference(r.out.values(), exact.out.values()), 1e-5);
    for (const int64_t row : {33, 34, 35, 36}) {
      EXPECT_FLOAT_EQ(static_cast<float>(r.lse.get(row)), static_cast<float>(exact.lse.get(row))) << row;
    }
  });
}

// Scores far beyond what exp can hold, far apart, and negative scales.
TEST(Forward, LargeScores) {
  const cases::AttentionCase c{.name = "", .mask = "causal", .s_q = 400, .s_kv = 400, .h_q = 2, .h_kv = 2};
  Call call(c, {});
  for (const double scale : {30.0, -30.0, 0.0}) {
    SCOPED_TRACE(scale);
    call.problem.softmax_scale = scale;
    on_each_target([&] { expect_close(call, c, DType::f32); });
  }
}

TEST(Forward, CallsFromSeveralThreadsAtOnce) {
  const cases::AttentionCase c{
      .name = "", .mask = "causal & window(300, 0)", .b = 2, .s_q = 500, .s_kv = 500, .h_q = 4, .h_kv = 2};
  Call call(c, {});
  const Result alone = run(call, c, cpu_backend(), false, 1);
  std::array<bool, 4> same{};
  std::vector<std::thread> users;
  for (size_t u = 0; u < same.size(); ++u) {
    users.emplace_back([&, u] {
      same[u] = true;
      for (int i = 0; i < 5; ++i) {
        const Result again = run(call, c, cpu_backend(), false, 2 + static_cast<int>(u));
        same[u] = same[u] && again.out.bytes() == alone.out.bytes() && again.lse.bytes() == alone.lse.bytes();
      }
    });
  }
  for (std::thread& user : users) user.join();
  for (const bool s : same) EXPECT_TRUE(s);
}

TEST(Forward, RefusesWhatItCannotCompute) {
  AttentionProblem p;
  p.d_qk = p.d_v = 64;
  EXPECT_TRUE(cpu_backend().supports(p, Direction::forward).yes);
  p.d_v = 12;
  EXPECT_NE(cpu_backend().supports(p, Direction::forward).reason.find("multiples of 8"), std::string::npos);
  p.d_v = 64;
  p.dtype = DType::f64;
  EXPECT_NE(cpu_backend().supports(p, Direction::forward).reason.find("float64"), std::string::npos);
}

TEST(Forward, ExplainsItself) {
  const cases::AttentionCase c{.name = "", .mask = "causal", .s_q = 200, .s_kv = 200};
  Call call(c, {});
  std::string text;
  for (const Fact& fact : cpu_backend().explain(call.problem, call.mask, Direction::forward))
    text += fact.name + "=" + fact.value + ";";
  EXPECT_NE(text.find("tile=64 x 64"), std::string::npos) << text;
  EXPECT_NE(text.find("no plan"), std::string::npos) << text;
  EXPECT_NE(text.find("target=" + cpu_target()), std::string::npos) << text;
}

TEST(Targets, UnknownNameIsRefused) {
  try {
    force_cpu_target("MMX");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(cpu_targets().back()), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace anymask::test
