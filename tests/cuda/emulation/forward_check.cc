#include "cuda/emulation/forward_check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/emulation/host_plan.h"
#include "cuda/emulation/launches.h"
#include "cuda/launch/params.h"

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
      {.attention = {.name = "bias-of-keys", .mask = "stride(3)", .s_q = 130, .s_kv = 257, .h_q = 2, .bias = "1g1"},
       .layout = Layout::head_major_padded},
      {.attention = {.name = "negative-scale", .mask = "causal", .s_q = 130, .s_kv = 130}, .scale = -.1},
  };
  return list;
}

void launch_forward(const AttentionProblem& problem, const Mask& mask, const ForwardCase& c, int32_t tile_m,
                    const std::function<void(const AttentionParams&)>& launch) {
  if (problem.max_s_q == 0) return;
  const HostPlan plan = make_host_plan(mask, problem, tile_m, c.fold, c.pieces);
  AttentionParams params = make_params(problem);
  std::vector<CudaSequence> sequences(problem.sequences.size());
  params.sequences = enqueue_sequences(problem, sequences.data(), nullptr);
  params.plan = plan.view();
  int32_t counter = 0;
  params.work_counter = &counter;
  const size_t rows = static_cast<size_t>(plan.slots) * static_cast<size_t>(tile_m);
  std::vector<float> partial_out(rows * static_cast<size_t>(problem.d_v), NAN), partial_lse(rows, NAN);
  params.partial_out = partial_out.data();
  params.partial_lse = partial_lse.data();
  launch(params);
  if (plan.slots == 0) return;
  problem.dtype == DType::bf16 ? run_combine<__nv_bfloat16>(params) : run_combine<__half>(params);
}

void expect_close(const ForwardCase& c, DType dtype, const Forward& forward) {
  Call call(c.attention, {.dtype = dtype, .layout = c.layout, .bias_fp32 = dtype == DType::f16});
  if (c.q != 1) {
    std::mt19937_64 rng(3);
    call.q().fill(rng, c.q);
  }
  if (c.scale != 0) call.problem.softmax_scale = c.scale;
  const Result exact = result_of(call, c.attention, true,
                                 [&](const AttentionProblem& p) { reference_backend().forward(p, call.mask, {}); });
  const Result naive = result_of(call, c.attention, false,
                                 [&](const AttentionProblem& p) { naive_backend().forward(p, call.mask, {}); });
  const double bit = std::ldexp(1.0, dtype == DType::bf16 ? -7 : -10), f32_bit = std::ldexp(1.0, -21);
  for (const Schedule now : {Schedule::early, Schedule::late}) {
    SCOPED_TRACE(now == Schedule::early ? "early" : "late");
    schedule = now;
    const Result got =
        result_of(call, c.attention, false, [&](const AttentionProblem& p) { forward(p, call.mask, c); });
    EXPECT_LE(difference(got.out, exact.out), 2 * difference(naive.out, exact.out) + bit * scale_of(exact.out));
    EXPECT_LE(difference(got.lse, exact.lse), 2 * difference(naive.lse, exact.lse) + f32_bit * scale_of(exact.lse));
    EXPECT_TRUE(got.out.surroundings_untouched() && got.lse.surroundings_untouched());
  }
}

}  // namespace anymask::emulation
