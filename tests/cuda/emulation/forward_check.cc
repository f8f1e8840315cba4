#include "cuda/emulation/forward_check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "cuda/emulation/host_plan.h"
#include "cuda/emulation/launches.h"
#include "cuda/launch/band.h"
#include "cuda/launch/params.h"
#include "mask/registry.h"

namespace anymask::emulation {
namespace {

using test::Buffer;
using test::Call;
using test::Layout;

struct Result {
  Buffer out, lse;
};

// The layout of the call's own out, or contiguous fp64.
template <class Run>
Result result_of(Call& call, const cases::AttentionCase& c, bool wide, const Run& run) {
  const std::vector<int64_t> shape = {c.b, c.s_q, c.h_q, c.d_v};
  const Buffer& like = call.out();
  Result r;
  r.out = wide ? Buffer::contiguous(DType::f64, shape)
               : Buffer(like.dtype(), shape, {like.stride(0), like.stride(1), like.stride(2), like.stride(3)});
  r.lse = Buffer::contiguous(wide ? DType::f64 : DType::f32, {c.b, c.h_q, c.s_q});
  AttentionProblem p = call.problem;
  p.out = {r.out.data(), r.out.dtype(), p.packed ? 0 : r.out.stride(0), r.out.stride(1), r.out.stride(2), true};
  p.lse = {r.lse.data(), r.lse.dtype(), p.packed ? 0 : r.lse.stride(0), r.lse.stride(1), r.lse.stride(2), true};
  run(p);
  return r;
}

// Equal infinities are no difference; NaN is an infinite one.
double difference(const Buffer& x, const Buffer& y) {
  double max = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (x.get(i) == y.get(i)) continue;
    const double d = std::fabs(x.get(i) - y.get(i));
    max = std::max(max, std::isnan(d) ? std::numeric_limits<double>::infinity() : d);
  }
  return max;
}
double scale_of(const Buffer& x) {
  double max = 1;
  for (int64_t i = 0; i < x.size(); ++i) max = std::isfinite(x.get(i)) ? std::max(max, std::fabs(x.get(i))) : max;
  return max;
}

}  // namespace

const std::vector<ForwardCase>& forward_cases() {
  static const std::vector<ForwardCase> list = {
      {.attention = {.name = "full", .mask = "full", .s_q = 200, .s_kv = 300, .h_q = 2}},
      {.attention = {.name = "causal", .mask = "causal", .b = 2, .s_q = 260, .s_kv = 260}},
      {.attention = {.name = "rising", .mask = "full", .s_q = 130, .s_kv = 700}, .q = 40},
      {.attention = {.name = "rising-causal", .mask = "causal", .s_q = 300, .s_kv = 300}, .q = 25},
      {.attention = {.name = "empty-rows", .mask = "causal", .s_q = 200, .s_kv = 90}},
      {.attention =
           {.name = "documents", .mask = "causal & documents([0, 7, 7, 130, 131, 300, 333])", .s_q = 333, .s_kv = 333}},
      {.attention = {.name = "window", .mask = "window(100, 0)", .s_q = 400, .s_kv = 400},
       .layout = Layout::head_major_padded},
      {.attention = {.name = "blocks",
                     .mask = "blocks(@map, 128, 128)",
                     .s_q = 500,
                     .s_kv = 500,
                     .arrays = {{"map", true, {4, 4}, {0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1}}}},
       .q = 8},
      {.attention = {.name = "none", .mask = "none", .s_q = 70, .s_kv = 70, .sinks = true}},
      {.attention = {.name = "no-keys", .mask = "full", .s_q = 5, .s_kv = 0}},
      {.attention = {.name = "stride", .mask = "stride(10) & ~keys(0, 150)", .s_q = 150, .s_kv = 300, .sinks = true}},
      {.attention = {.name = "packed",
                     .mask = "causal",
                     .s_q = 290,
                     .s_kv = 333,
                     .h_q = 2,
                     .cu_seqlens_q = {0, 100, 100, 157, 160, 290},
                     .cu_seqlens_kv = {0, 100, 105, 269, 269, 333}},
       .layout = Layout::head_major_padded},
      {.attention = {.name = "split", .mask = "causal", .s_q = 150, .s_kv = 600, .sinks = true}, .pieces = 3},
      {.attention =
           {.name = "split-window", .mask = "window(300, 20)", .s_q = 300, .s_kv = 500, .h_q = 2, .softcap = 15},
       .pieces = 2},
      {.attention = {.name = "fold4", .mask = "causal", .s_q = 40, .s_kv = 400, .h_q = 4, .sinks = true}, .fold = 4},
      {.attention =
           {.name = "fold2-packed", .mask = "causal", .s_q = 100, .s_kv = 100, .h_q = 2, .cu_seqlens_q = {0, 30, 100}},
       .fold = 2},
      {.attention = {.name = "fold4-split", .mask = "causal", .s_q = 21, .s_kv = 900, .h_q = 4, .sinks = true},
       .fold = 4,
       .pieces = 3},
      {.attention = {.name = "fold2-bias", .mask = "causal", .s_q = 30, .s_kv = 300, .h_q = 2, .bias = "1hq"},
       .fold = 2},
      {.attention = {.name = "softcap-alibi-bias",
                     .mask = "causal",
                     .b = 2,
                     .s_q = 140,
                     .s_kv = 200,
                     .h_q = 2,
                     .bias = "bhq",
                     .softcap = 9,
                     .alibi = true,
                     .sinks = true}},
      // Far from the diagonal on both sides, tiles in any order of kinds, pieces, heads in rows, no scale to divide by.
      {.attention = {.name = "alibi", .mask = "causal", .s_q = 300, .s_kv = 700, .h_q = 2, .alibi = true}},
      {.attention = {.name = "alibi-full", .mask = "full", .s_q = 450, .s_kv = 500, .h_q = 2, .alibi = true}},
      {.attention =
           {.name = "alibi-bits", .mask = "stride(3) & ~keys(130, 400)", .s_q = 300, .s_kv = 640, .alibi = true},
       .pieces = 2},
      {.attention = {.name = "alibi-fold", .mask = "causal", .s_q = 30, .s_kv = 500, .h_q = 4, .alibi = true},
       .fold = 4},
      {.attention = {.name = "alibi-negative-scale", .mask = "causal", .s_q = 130, .s_kv = 300, .alibi = true},
       .scale = -.1},
      // Scores far below the cap, about it, and beyond.
      {.attention = {.name = "softcap-high", .mask = "causal", .s_q = 130, .s_kv = 300, .softcap = 50}},
      {.attention = {.name = "softcap-low", .mask = "causal", .s_q = 130, .s_kv = 300, .softcap = .5}},
      {.attention = {.name = "softcap-reached", .mask = "causal", .s_q = 130, .s_kv = 300, .softcap = 20}, .q = 40},
      {.attention = {.name = "bias-of-keys", .mask = "stride(3)", .s_q = 130, .s_kv = 257, .h_q = 2, .bias = "1g1"},
       .layout = Layout::head_major_padded},
      {.attention = {.name = "negative-scale", .mask = "causal", .s_q = 130, .s_kv = 130}, .scale = -.1},
  };
  return list;
}

void launch_forward(const AttentionProblem& problem, const Mask& mask, const ForwardCase& c, int32_t tile_m,
                    const std::function<void(const AttentionParams&)>& launch) {
  if (problem.max_s_q == 0) return;
  AttentionParams params = make_params(problem);
  CudaTickets tickets;
  std::memset(&tickets, 0xff, sizeof tickets);
  params.tickets = &tickets;
  std::vector<float> partial_out, partial_lse;
  std::vector<CudaArrivals> arrivals;
  CudaArrivalsOpen open{params.launch ^ 1, -7, 0};
  const auto add_pieces = [&](int64_t slots) {
    if (slots == 0) return;
    const auto rows = static_cast<size_t>(slots * tile_m);
    partial_out.assign(rows * static_cast<size_t>(problem.d_v), NAN);
    partial_lse.assign(rows, NAN);
    arrivals.assign(rows / 64, {77, -77});
    params.partial_out = partial_out.data();
    params.partial_lse = partial_lse.data();
    params.arrivals = arrivals.data();
    params.arrivals_open = &open;
    params.slots = static_cast<int32_t>(slots);
  };
  if (c.band) {
    const BoundMask bound = anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv);
    const BandSource band(bound, problem, {.tile_m = tile_m, .fold = c.fold, .parallelism = c.blocks});
    ASSERT_EQ(band.refusal(), "");
    EXPECT_EQ(band.partial_slots() > 0, c.pieces > 1);
    add_pieces(band.partial_slots());
    std::vector<uint64_t> block(band.bytes() / sizeof(uint64_t) + 2);
    band.enqueue(params.band, block.data(), nullptr);
    params.plan.tile_m = tile_m;
    params.plan.fold = fold_of(c.fold);
    launch(params);
    EXPECT_NE(tickets.launch, params.launch);
    EXPECT_NE(open.launch, params.launch);
    return;
  }
  const HostPlan plan = make_host_plan(mask, problem, {.tile_m = tile_m, .fold = c.fold}, c.pieces);
  std::vector<CudaSequence> sequences(problem.sequences.size());
  params.sequences = enqueue_sequences(problem, sequences.data(), nullptr);
  params.plan = plan.view();
  add_pieces(plan.slots);
  launch(params);
}

bool expect_close(const ForwardCase& c, DType dtype, const Forward& forward) {
  Call call(c.attention, {.dtype = dtype, .layout = c.layout, .bias_fp32 = dtype == DType::f16});
  if (c.q != 1) {
    std::mt19937_64 rng(3);
    call.q().fill(rng, c.q);
  }
  if (c.mask) call.mask = *c.mask;
  if (c.scale != 0) call.problem.softmax_scale = c.scale;
  const Result exact = result_of(call, c.attention, true,
                                 [&](const AttentionProblem& p) { reference_backend().forward(p, call.mask, {}); });
  const Result naive = result_of(call, c.attention, false,
                                 [&](const AttentionProblem& p) { naive_backend().forward(p, call.mask, {}); });
  const double bit = std::ldexp(1.0, dtype == DType::bf16 ? -7 : -10), f32_bit = std::ldexp(1.0, -21);
  const auto run = [&](bool band) {
    ForwardCase now = c;
    now.band = band;
    return result_of(call, c.attention, false, [&](const AttentionProblem& p) { forward(p, call.mask, now); });
  };
  // Pieces of a number that the case chose are a plan's alone.
  const BoundMask bound = anymask::bind(call.mask, call.problem.sequences, call.problem.h_q, call.problem.h_kv);
  const bool band = (c.pieces == 1 || c.blocks > 0) &&
                    BandSource(bound, call.problem, {.tile_m = 128, .fold = c.fold}).refusal().empty();
  for (const Schedule now : {Schedule::early, Schedule::late}) {
    SCOPED_TRACE(now == Schedule::early ? "early" : "late");
    schedule = now;
    const Result got = run(false);
    EXPECT_LE(difference(got.out, exact.out), 2 * difference(naive.out, exact.out) + bit * scale_of(exact.out));
    EXPECT_LE(difference(got.lse, exact.lse), 2 * difference(naive.lse, exact.lse) + f32_bit * scale_of(exact.lse));
    EXPECT_TRUE(got.out.surroundings_untouched() && got.lse.surroundings_untouched());
    if (!band) continue;
    const Result again = run(true);
    EXPECT_EQ(difference(again.out, got.out), 0);
    EXPECT_EQ(difference(again.lse, got.lse), 0);
    EXPECT_TRUE(again.out.surroundings_untouched() && again.lse.surroundings_untouched());
  }
  return band;
}

const std::vector<ForwardCase>& band_cases() {
  // More offsets than parameters hold.
  static const std::string many = [] {
    std::string text = "documents([0";
    for (int i = 1; i <= 400; ++i) text += "," + std::to_string(i);
    return text + "]) & window(2, 1)";
  }();
  static const std::vector<ForwardCase> list = {
      {.attention = {.name = "prefix-lm", .mask = "causal | prefix(170)", .s_q = 400, .s_kv = 400}},
      {.attention = {.name = "prefix-of-each",
                     .mask = "causal & prefix(@n)",
                     .b = 3,
                     .s_q = 150,
                     .s_kv = 300,
                     .arrays = {{"n", false, {3}, {0, 130, 300}}}}},
      {.attention = {.name = "chunked", .mask = "chunked(150) & causal", .s_q = 420, .s_kv = 420, .h_q = 2}},
      {.attention = {.name = "keys", .mask = "keys(100, 270)", .s_q = 140, .s_kv = 400}},
      {.attention = {.name = "positions", .mask = "causal & positions(150, 170)", .s_q = 333, .s_kv = 333}},
      {.attention = {.name = "not-causal", .mask = "~causal", .s_q = 300, .s_kv = 300}},
      {.attention =
           {.name = "wide-window", .mask = "window(20, 200) & keys(3, 290)", .s_q = 64, .s_kv = 310, .h_q = 4}},
      {.attention = {.name = "documents-of-rows",
                     .mask = "documents([0, 100, 100, 200], [0, 7, 290, 310])",
                     .s_q = 200,
                     .s_kv = 310}},
      {.attention = {.name = "documents-window",
                     .mask = "documents([0, 1, 200, 263, 400]) & causal & window(60, 0)",
                     .s_q = 400,
                     .s_kv = 400}},
      {.attention = {.name = "many-documents", .mask = many, .s_q = 400, .s_kv = 400}},
      {.attention = {.name = "per-head",
                     .mask = "per_head([causal, window(9, 9), full, none])",
                     .s_q = 150,
                     .s_kv = 150,
                     .h_q = 4}},
      {.attention = {.name = "per-kv-head-folded",
                     .mask = "per_head([causal, window(9, 9), none])",
                     .s_q = 50,
                     .s_kv = 50,
                     .h_q = 6,
                     .h_kv = 3},
       .fold = 2},
      {.attention = {.name = "top-left", .mask = "causal(align=\"top_left\")", .s_q = 300, .s_kv = 130}},
      {.attention = {.name = "packed-equal",
                     .mask = "causal & window(30, 0)",
                     .s_q = 300,
                     .s_kv = 300,
                     .h_q = 2,
                     .cu_seqlens_q = {0, 100, 200, 300},
                     .cu_seqlens_kv = {0, 100, 200, 300}}},
      {.attention = {.name = "packed-many",
                     .mask = "causal & keys(1, 9)",
                     .s_q = 300,
                     .s_kv = 300,
                     .h_q = 2,
                     .cu_seqlens_q = {0,  1,   3,   6,   10,  15,  21,  28,  36,  45,  55,  66, 78,
                                      91, 105, 120, 136, 153, 171, 190, 210, 231, 253, 276, 300}}},
  };
  return list;
}

const std::vector<ForwardCase>& cut_band_cases() {
  static const std::vector<ForwardCase> list = {
      {.attention = {.name = "one-row", .mask = "full", .b = 2, .s_q = 1, .s_kv = 2048, .h_q = 2, .h_kv = 1},
       .pieces = 4,
       .blocks = 16},
      {.attention = {.name = "causal", .mask = "causal", .s_q = 20, .s_kv = 2000, .h_q = 4, .sinks = true},
       .fold = 4,
       .pieces = 4,
       .blocks = 8},
      {.attention = {.name = "window", .mask = "window(1100, 0)", .s_q = 30, .s_kv = 3000}, .pieces = 2, .blocks = 8},
      {.attention = {.name = "keys", .mask = "keys(300, 1700)", .s_q = 10, .s_kv = 2000, .softcap = 10},
       .pieces = 3,
       .blocks = 8},
      {.attention = {.name = "rows", .mask = "full", .s_q = 300, .s_kv = 1500}, .pieces = 3, .blocks = 9},
      {.attention = {.name = "lengths",
                     .mask = "causal",
                     .s_q = 5,
                     .s_kv = 4196,
                     .h_q = 2,
                     .cu_seqlens_q = {0, 1, 2, 5},
                     .cu_seqlens_kv = {0, 100, 2148, 4196}},
       .fold = 2,
       .pieces = 4,
       .blocks = 16},
      {.attention = {.name = "lengths-of-a-batch",
                     .mask = "prefix(@n)",
                     .b = 3,
                     .s_q = 3,
                     .s_kv = 2000,
                     .arrays = {{"n", false, {3}, {1900, 0, 120}}}},
       .pieces = 3,
       .blocks = 8},
  };
  return list;
}

ForwardCase random_band_case(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto pick = [&rng](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  ForwardCase c;
  cases::AttentionCase& a = c.attention;
  a.name = "random";
  a.b = pick(1, 3);
  a.s_q = pick(1, 300);
  a.s_kv = pick(0, 3) == 0 ? a.s_q : pick(1, 400);
  a.h_q = pick(1, 3) == 1 ? 4 : 2;
  a.h_kv = pick(0, 1) == 0 ? a.h_q : a.h_q / 2;
  a.sinks = pick(0, 3) == 0;
  const ExampleShape shape{.s_q = a.s_q, .s_kv = a.s_kv, .batch = a.b, .h_q = a.h_q, .h_kv = a.h_kv};
  const char* const kinds[] = {"full",      "none",   "causal",    "window", "keys",
                               "positions", "prefix", "documents", "chunked"};
  Mask mask = pick(0, 3) == 0 ? Mask::parse(cat("causal | prefix(", pick(0, a.s_kv), ")")) : Mask();
  for (int64_t i = pick(1, 4); i > 0; --i) mask = mask & find_kind(kinds[pick(i == 1 ? 2 : 0, 8)])->random(rng, shape);
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < a.b; ++i) sequences.push_back({i, 0, a.s_q, 0, a.s_kv});
  const bool shared = groups_share_planes(anymask::bind(mask, sequences, a.h_q, a.h_kv), a.h_q / a.h_kv);
  if (a.h_kv < a.h_q && shared && pick(0, 1) == 0) c.fold = 2;
  c.mask = mask;
  a.mask = "full";
  return c;
}

}  // namespace anymask::emulation
