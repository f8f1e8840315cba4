// The CPU backward against the reference: every option, type, layout and vector target; poison; and the same bits
// whatever the number of threads, the repetition, the spelling of the mask.
#include "cpu/backward.h"

#include <gtest/gtest.h>

#include <array>

#include "core/error.h"
#include "cpu/backward_case.h"
#include "cpu/targets.h"
#include "mask/registry.h"
#include "plan/tile_source.h"

namespace anymask::test {
namespace {

using cases::AttentionCase;

void run_reference(const AttentionProblem& problem, const Mask& mask) {
  reference_backend().backward(problem, mask, {});
}
void run_naive(const AttentionProblem& problem, const Mask& mask) { naive_backend().backward(problem, mask, {}); }

std::function<void(const AttentionProblem&, const Mask&)> run_cpu(int threads) {
  return [threads](AttentionProblem problem, const Mask& mask) {
    problem.num_threads = threads;
    cpu_backward(problem, mask);
  };
}

// Every gradient within twice the error of the naive computation in the same type, plus a small constant.
void expect_right(Call& call, const CallOptions& options, int threads = 2) {
  Gradients exact = call.backward(run_reference, true);
  Gradients naive = call.backward(run_naive);
  Gradients got = call.backward(run_cpu(threads));
  auto exact_all = exact.all(), naive_all = naive.all(), got_all = got.all();
  for (size_t i = 0; i < exact_all.size(); ++i) {
    const std::vector<double> truth = exact_all[i].second->values();
    const double bound =
        2 * largest_difference(naive_all[i].second->values(), truth) + constant(options.dtype, largest(truth));
    const double error = largest_difference(got_all[i].second->values(), truth);
    EXPECT_TRUE(error <= bound) << got_all[i].first << ": error " << error << ", bound " << bound << ", largest "
                                << largest(truth);
    EXPECT_TRUE(got_all[i].second->surroundings_untouched()) << got_all[i].first << ": written outside its elements";
  }
}

void expect_right(const AttentionCase& c, const CallOptions& options, int threads = 2) {
  SCOPED_TRACE(cat(c.name, ": ", c.mask, ", ", name_of(options.dtype), ", layout ", static_cast<int>(options.layout),
                   ", seed ", options.seed));
  Call call(c, options);
  call.forward();
  expect_right(call, options, threads);
}

void expect_same_bits(Gradients& a, Gradients& b) {
  auto a_all = a.all(), b_all = b.all();
  ASSERT_EQ(a_all.size(), b_all.size());
  for (size_t i = 0; i < a_all.size(); ++i)
    EXPECT_TRUE(a_all[i].second->bytes() == b_all[i].second->bytes()) << a_all[i].first << " differs";
}

// Forces each usable target in turn, and the best again at the end.
template <class F>
void on_every_target(F&& f) {
  for (const std::string& target : cpu_targets()) {
    SCOPED_TRACE(target);
    force_cpu_target(target);
    f();
  }
  force_cpu_target("");
}

TEST(Backward, NamedCasesOnEveryTarget) {
  on_every_target([] {
    for (const AttentionCase& c : cases::small_cases()) expect_right(c, {});
  });
}

TEST(Backward, NamedCasesInEveryTypeAndLayout) {
  uint64_t seed = 10;
  for (const AttentionCase& c : cases::small_cases()) {
    for (const Layout layout : {Layout::token_major, Layout::head_major_padded, Layout::expanded}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        ++seed;
        expect_right(
            c,
            {.dtype = dtype, .layout = layout, .bias_fp32 = seed % 2 == 0, .dbias_fp32 = seed % 3 == 0, .seed = seed});
      }
    }
  }
}

TEST(Backward, EveryHeadDimensionOnEveryTarget) {
  on_every_target([] {
    for (int64_t d = 8; d <= 256; d += 8) {
      const AttentionCase c{
          .name = cat("d", d), .mask = "causal", .s_q = 71, .s_kv = 75, .h_q = 1, .h_kv = 1, .d_qk = d, .d_v = 264 - d};
      expect_right(c, {.seed = static_cast<uint64_t>(d)});
    }
  });
}

TEST(Backward, EveryPatternOfBias) {
  uint64_t seed = 100;
  for (const char b : {'b', '1'}) {
    for (const char h : {'h', 'g', '1'}) {
      for (const char q : {'q', '1'}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          for (const bool dbias_fp32 : {true, false}) {
            AttentionCase c{.name = "bias",
                            .mask = "causal",
                            .b = 3,
                            .s_q = 70,
                            .s_kv = 300,
                            .h_q = 4,
                            .h_kv = 2,
                            .d_qk = 16,
                            .d_v = 24};
            c.bias = std::string{b, h, q};
            c.name += "-" + c.bias;
            ++seed;
            c.softcap = seed % 2 == 0 ? 4 : 0;
            expect_right(c,
                         {.dtype = dtype,
                          .layout = seed % 3 == 0 ? Layout::head_major_padded : Layout::token_major,
                          .bias_fp32 = dbias_fp32,
                          .dbias_fp32 = dbias_fp32,
                          .seed = seed},
                         3);
          }
        }
        AttentionCase packed{.name = "packed-bias",
                             .mask = "causal",
                             .s_q = 150,
                             .s_kv = 150,
                             .h_q = 4,
                             .h_kv = 2,
                             .d_qk = 16,
                             .d_v = 16};
        packed.bias = std::string{b, h, q};
        packed.cu_seqlens_q = {0, 1, 1, 70, 150};
        expect_right(packed, {.seed = ++seed}, 3);
      }
    }
  }
}

// Several chunks of keys, everything on at once.
TEST(Backward, ManyChunksEveryOption) {
  uint64_t seed = 200;
  for (const char* mask :
       {"full", "causal", "window(90, 40) | keys(0, 3)", "causal & documents([0, 100, 101, 350, 700])",
        "stride(3) | window(5, 5)", "per_head([causal, ~causal, chunked(100), window(20, 20)])"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      AttentionCase c{
          .name = "many-chunks", .mask = mask, .s_q = 330, .s_kv = 700, .h_q = 4, .h_kv = 2, .d_qk = 40, .d_v = 48};
      c.bias = "1hq";
      c.softcap = 6;
      c.alibi = c.sinks = c.dlse = true;
      expect_right(c, {.dtype = dtype, .layout = Layout::head_major_padded, .seed = ++seed}, 3);
    }
  }
}

TEST(Backward, RandomMasks) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 rng(seed);
    const auto pick = [&](std::initializer_list<int64_t> of) { return of.begin()[rng() % of.size()]; };
    AttentionCase c{.name = "random",
                    .mask = "full",
                    .b = pick({1, 2}),
                    .s_q = pick({1, 50, 64, 130, 200}),
                    .s_kv = pick({1, 60, 64, 129, 310}),
                    .h_q = 2,
                    .h_kv = pick({1, 2}),
                    .d_qk = pick({8, 32, 72}),
                    .d_v = pick({8, 32, 72})};
    c.dlse = rng() % 2 == 0;
    c.sinks = rng() % 3 == 0;
    const CallOptions options{.dtype = rng() % 2 == 0 ? DType::f32 : DType::bf16, .seed = seed};
    Call call(c, options);
    call.mask = random_mask(seed, {c.s_q, c.s_kv, c.b, c.h_q, c.h_kv}, 4);
    SCOPED_TRACE(cat("seed ", seed, ": ", call.mask.str()));
    call.forward();
    expect_right(call, options);
  }
}

// Several chunks of keys and blocks of rows; every mask and every bias in both types, not every pair of them: the
// thread sanitizer runs this too.
TEST(Backward, SameBitsForAnyNumberOfThreads) {
  constexpr std::array masks = {"full", "causal", "window(50, 10) | keys(0, 2)", "~causal"};
  constexpr std::array biases = {"", "1gq", "11q", "111", "b1q"};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (size_t i = 0; i < 2 * biases.size(); ++i) {
      const char *mask = masks[i % masks.size()], *bias = biases[i % biases.size()];
      AttentionCase c{
          .name = "threads", .mask = mask, .b = 2, .s_q = 200, .s_kv = 520, .h_q = 4, .h_kv = 2, .d_qk = 16, .d_v = 16};
      c.bias = bias;
      c.sinks = true;
      SCOPED_TRACE(cat(mask, ", bias ", bias, ", ", name_of(dtype)));
      const CallOptions options{.dtype = dtype, .dbias_fp32 = dtype == DType::f32, .seed = 7};
      Call call(c, options);
      cpu_backend().forward(call.problem, call.mask, {});
      Gradients one = call.backward(run_cpu(1));
      for (const int threads : {2, 5}) {
        SCOPED_TRACE(threads);
        Gradients again = call.backward(run_cpu(threads));
        expect_same_bits(one, again);
      }
    }
  }
}

TEST(Backward, OneHeadManyThreads) {
  AttentionCase c{.name = "one-head", .mask = "causal", .s_q = 1500, .s_kv = 1500, .d_qk = 16, .d_v = 16};
  for (const DType dtype : {DType::f32, DType::f16}) {
    Call call(c, {.dtype = dtype});
    call.forward();
    Gradients one = call.backward(run_cpu(1));
    for (int repetition = 0; repetition < 5; ++repetition) {
      Gradients again = call.backward(run_cpu(2 + repetition));
      expect_same_bits(one, again);
    }
  }
}

// A mask in another spelling gives the same bits: as a band, as a plan of bits, as a plan of intervals.
TEST(Backward, SameBitsForTheSameMask) {
  constexpr int64_t s_q = 300, s_kv = 410;
  cases::CaseArray kept{"kept", true, {s_q, s_kv}, {}};
  cases::CaseArray begin{"begin", false, {s_q, 1}, {}}, end{"end", false, {s_q, 1}, {}};
  for (int64_t q = 0; q < s_q; ++q) {
    const int64_t p = q + s_kv - s_q;
    begin.values.push_back(std::max<int64_t>(p - 99, 0));
    end.values.push_back(p + 1);
    for (int64_t kv = 0; kv < s_kv; ++kv) kept.values.push_back(kv <= p && kv >= p - 99);
  }
  AttentionCase c{.name = "spelling",
                  .mask = "causal & window(99, 0)",
                  .s_q = s_q,
                  .s_kv = s_kv,
                  .h_q = 2,
                  .h_kv = 1,
                  .d_qk = 24,
                  .d_v = 24};
  c.arrays = {kept, begin, end};
  Call band(c, {});
  band.forward();
  EXPECT_FALSE(
      TileSource::make(band.mask, band.problem.sequences, 2, 1, backward_plan_request(band.problem)).planned());
  Gradients first = band.backward(run_cpu(2));
  for (const char* spelling :
       {"dense(@kept)", "row_intervals(@begin, @end)", "~(~causal | ~window(99, 0)) & (dense(@kept) | none)"}) {
    SCOPED_TRACE(spelling);
    c.mask = spelling;
    Call planned(c, {});
    planned.forward();
    EXPECT_TRUE(TileSource::make(planned.mask, planned.problem.sequences, 2, 1, backward_plan_request(planned.problem))
                    .planned());
    Gradients second = planned.backward(run_cpu(2));
    expect_same_bits(first, second);
  }
}

void poison_tokens(Buffer& buffer, int64_t tokens, int64_t width, const std::function<bool(int64_t)>& which) {
  for (int64_t i = 0; i < buffer.size(); ++i) {
    if (which(i / width % tokens)) buffer.set(i, i % 2 == 0 ? std::nan("") : std::numeric_limits<double>::infinity());
  }
}

// NaN and infinity in keys and rows that no pair keeps: the results are those of the clean inputs, and their own
// gradients are zero.
TEST(Backward, MaskedEntriesDoNotLeak) {
  struct Drop {
    const char* mask;
    std::function<bool(int64_t)> key, row;
  };
  const int64_t s = 300;
  const std::vector<Drop> drops = {
      {"keys(0, 290)", [](int64_t kv) { return kv >= 290; }, [](int64_t) { return false; }},
      {"causal & ~keys(100, 103)", [](int64_t kv) { return kv >= 100 && kv < 103; }, [](int64_t) { return false; }},
      {"positions(10, 200)", [](int64_t) { return false; }, [](int64_t q) { return q < 10 || q >= 200; }},
      {"causal & keys(5, 300)", [](int64_t kv) { return kv < 5; }, [](int64_t q) { return q < 5; }},
  };
  for (const Drop& drop : drops) {
    for (const bool sinks : {false, true}) {
      SCOPED_TRACE(cat(drop.mask, sinks ? ", sinks" : ""));
      AttentionCase c{
          .name = "poison", .mask = drop.mask, .s_q = s, .s_kv = s, .h_q = 2, .h_kv = 1, .d_qk = 40, .d_v = 32};
      c.sinks = sinks;
      c.bias = "1hq";
      const CallOptions options;
      Call call(c, options);
      poison_tokens(call.k(), s, 40, drop.key);
      poison_tokens(call.v(), s, 32, drop.key);
      poison_tokens(call.q(), s, 2 * 40, drop.row);
      call.forward();
      Call clean(c, options);
      clean.forward();
      poison_tokens(call.dout(), s, 2 * 32, drop.row);
      Gradients truth = clean.backward(run_reference, true);
      Gradients got = call.backward(run_cpu(2));
      auto truth_all = truth.all(), got_all = got.all();
      for (size_t i = 0; i < truth_all.size(); ++i) {
        const std::vector<double> expected = truth_all[i].second->values();
        EXPECT_TRUE(largest_difference(got_all[i].second->values(), expected) <= 1e-4 * (1 + largest(expected)))
            << got_all[i].first;
      }
    }
  }
}

// A key that holds NaN spoils the rows that keep it, not the others that share a register tile with them.
TEST(Backward, NanSpoilsOnlyWhatKeepsIt) {
  AttentionCase c{
      .name = "nan-key", .mask = "~keys(33, 34) | positions(20, 21)", .s_q = 90, .s_kv = 90, .d_qk = 16, .d_v = 16};
  Call call(c, {});
  call.k().set(33 * 16, std::nan(""));
  call.v().set(33 * 16, std::nan(""));
  call.forward();
  Gradients got = call.backward(run_cpu(1));
  for (int64_t q = 0; q < 90; ++q) {
    for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(std::isnan(got.dq.get(q * 16 + j)), q == 20) << "row " << q;
  }
}

// A thread's memory is kept between calls: what a call full of NaN left there must not show where the next forms no
// scores.
TEST(Backward, MemoryOfEarlierCallsDoesNotShow) {
  const int64_t s = 64;
  for (const double softcap : {0.0, 5.0}) {
    AttentionCase c{.name = "stale",
                    .mask = "(positions(0, 6) | positions(40, 64)) & keys(0, 30)",
                    .s_q = s,
                    .s_kv = s,
                    .h_q = 1,
                    .h_kv = 1};
    c.softcap = softcap;
    c.sinks = true;
    const CallOptions options;
    Call call(c, options);
    call.forward();
    Gradients before = call.backward(run_cpu(1));
    c.mask = "full";  // leaves a NaN everywhere
    Call spoiled(c, options);
    poison_tokens(spoiled.q(), s, call.problem.d_qk, [](int64_t) { return true; });
    spoiled.forward();
    spoiled.backward(run_cpu(1));
    Gradients after = call.backward(run_cpu(1));
    auto before_all = before.all(), after_all = after.all();
    for (size_t i = 0; i < before_all.size(); ++i) {
      EXPECT_EQ(before_all[i].second->values(), after_all[i].second->values())
          << before_all[i].first << ", softcap " << softcap;
    }
  }
}

TEST(Backward, BiasOfMinusInfinityGivesNothing) {
  AttentionCase c{.name = "bias", .mask = "full", .s_q = 70, .s_kv = 70, .d_qk = 16, .d_v = 16};
  c.bias = "11q";
  Call call(c, {});
  for (int64_t j = 0; j < 70; ++j)
    call.bias_values().set(7 * 70 + j, -std::numeric_limits<double>::infinity());  // row 7 keeps nothing
  call.forward();
  expect_right(call, {});
  Gradients got = call.backward(run_cpu(1));
  for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(got.dq.get(7 * 16 + j), 0);
}

// The gradients of a row's scores sum to zero, so that what its keys have in common does not show in dq: only where
// forward and backward round scores alike. Real models have such keys, a few columns far from zero.
TEST(Backward, WhatKeysHaveInCommonCancels) {
  const AttentionCase c{.name = "common", .mask = "causal", .s_q = 200, .s_kv = 200, .h_q = 2, .h_kv = 2};
  Call call(c, {});
  for (int64_t token = 0; token < 200; ++token) {
    for (int64_t h = 0; h < 2; ++h) {
      const int64_t at = (token * 2 + h) * c.d_qk;
      for (int64_t j = 0; j < c.d_qk; ++j) call.q().set(at + j, call.q().get(at + j) * (j == 5 ? 0.3 : 3));
      call.k().set(at + 5, call.k().get(at + 5) + 100);
    }
  }
  on_every_target([&] {
    const auto error_of_dq = [&](const Backend& backend) {
      backend.forward(call.problem, call.mask, {});
      Gradients got = call.backward([&](const AttentionProblem& p, const Mask& m) { backend.backward(p, m, {}); });
      return largest_difference(got.dq.values(), call.backward(run_reference, true).dq.values());
    };
    EXPECT_LE(error_of_dq(cpu_backend()), 2.5 * error_of_dq(naive_backend()));
  });
}

// A row that keeps nothing has lse = sink: what flows in through lse is the sink's, nothing else has a gradient.
TEST(Backward, SinkOfRowsThatKeepNothing) {
  const AttentionCase c{.name = "sink", .mask = "positions(0, 3)", .s_q = 70, .s_kv = 70, .sinks = true, .dlse = true};
  Call call(c, {});
  call.forward();
  double dlse = 0;
  for (int64_t row = 3; row < 70; ++row) {
    dlse += static_cast<double>(static_cast<const float*>(call.problem.dlse.data)[row * call.problem.dlse.stride_q]);
  }
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t j = 0; j < c.d_v; ++j) call.dout().set(row * c.d_v + j, 0);
    static_cast<float*>(call.problem.dlse.data)[row * call.problem.dlse.stride_q] = 0;
  }
  const auto cpu = run_cpu(2);
  for (const auto& run : {std::function<void(const AttentionProblem&, const Mask&)>(run_reference), cpu}) {
    Gradients got = call.backward(run);
    EXPECT_NEAR(got.dsinks.get(0), dlse, 1e-5);
    for (Buffer* zero : {&got.dq, &got.dk, &got.dv}) EXPECT_EQ(largest(zero->values()), 0);
  }
}

TEST(Backward, FactsNameTheTile) {
  Call call({.name = "facts", .mask = "causal", .s_q = 4096, .s_kv = 4096, .h_q = 4, .h_kv = 4, .d_qk = 8, .d_v = 8},
            {});
  const std::vector<Fact> facts = backward_facts(call.problem, call.mask);
  EXPECT_TRUE(std::any_of(facts.begin(), facts.end(),
                          [](const Fact& fact) { return fact.name == "tile" && fact.value == "256 keys x 64 rows"; }));
  EXPECT_EQ(backward_plan_request(call.problem).tile_m, 256);
}

}  // namespace
}  // namespace anymask::test
