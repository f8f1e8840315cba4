// The portable backward from its own source on the emulator, every kernel of it, with its launcher and configuration,
// against the reference: with plans, with bands, in one launch. dbias is left to devices: its kernels vote in parts of
// warps.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "core/error.h"
#include "cuda/emulation/forward_check.h"
#include "cuda/emulation/host_plan.h"
#include "cuda/emulation/launches.h"
#include "cuda/launch/band.h"
#include "cuda/launch/params.h"
#include "cuda/launch/sm80_attention_bwd.h"
#include "cuda/tile/band_rows.cuh"

namespace anymask {
namespace {

using emulation::Schedule;
using test::Call;
using test::Gradients;

// How a call is computed.
struct Way {
  const char* name;
  bool band, small;  // small: in one launch
  bool deterministic = false;
  int32_t shared_bytes = emulation::sm80_shared_bytes;
  bool aligned = true;
};

void run(AttentionProblem problem, const Mask& mask, const Way& way) {
  CudaDevice device;
  device.major = 8;
  device.num_sms = way.small ? 1000 : 2;
  device.shared_bytes = way.shared_bytes;
  problem.deterministic = way.deterministic;
  const BoundMask bound = anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv);
  Sm80AttentionBwdConfig config =
      choose_sm80_attention_bwd(problem, device, groups_share_planes(bound, problem.group()));
  config.aligned &= way.aligned;

  Sm80BwdCall call{make_params(problem), {}, 0, 0};
  std::vector<CudaSequence> sequences(problem.sequences.size());
  if (!way.band) call.dkdv.sequences = enqueue_sequences(problem, sequences.data(), nullptr);
  call.dq = call.dkdv;
  std::vector<uint64_t> blocks[2];
  emulation::HostPlan plans[2];
  const auto tell = [&](AttentionParams& params, const PlanShape& shape, size_t pass) -> int64_t {
    if (way.band) {
      const BandSource band(bound, problem, shape);
      EXPECT_EQ(band.refusal(), "");
      blocks[pass].resize(band.bytes() / sizeof(uint64_t) + 2);
      band.enqueue(params.band, blocks[pass].data(), nullptr);
      return band.max_items();
    }
    plans[pass] = emulation::make_host_plan(mask, problem, shape);
    params.plan = plans[pass].view();
    return plans[pass].num_items;
  };
  if (way.small) {
    ASSERT_GT(config.small_head_dim, 0) << config.why_not_small;
    tell(call.dkdv, config.small_plan(), 0);
    return launch_sm80_attention_bwd_small(call.dkdv, config, device, nullptr);
  }
  call.dkdv_items = tell(call.dkdv, config.dkdv_plan(), 0);
  if (config.two_passes) call.dq_items = tell(call.dq, config.dq_plan(), 1);
  std::vector<uint64_t> scratch(sm80_attention_bwd_scratch_bytes(problem, config) / sizeof(uint64_t), ~uint64_t{0});
  launch_sm80_attention_bwd(call, scratch.data(), config, device, nullptr);
}

// Within twice the error of the naive computation in the same type, plus a small constant.
void expect_right(Gradients& got, Gradients& naive, Gradients& exact, DType dtype) {
  auto exact_all = exact.all(), naive_all = naive.all(), got_all = got.all();
  for (size_t i = 0; i < exact_all.size(); ++i) {
    const std::vector<double> truth = exact_all[i].second->values();
    const double bound = 2 * test::largest_difference(naive_all[i].second->values(), truth) +
                         test::constant(dtype, test::largest(truth));
    const double error = test::largest_difference(got_all[i].second->values(), truth);
    EXPECT_TRUE(error <= bound) << got_all[i].first << ": error " << error << ", bound " << bound << ", largest "
                                << test::largest(truth);
    EXPECT_TRUE(got_all[i].second->surroundings_untouched()) << got_all[i].first << ": written outside its elements";
  }
}

bool is_small(const cases::AttentionCase& c) {
  return c.bias.empty() && !c.alibi && c.softcap == 0 && !c.sinks && std::max(c.d_qk, c.d_v) <= 128 &&
         std::max(c.s_q, c.s_kv) <= sm80_bwd_small_tokens(128, true);
}

// Each way against the reference; without atomics, bands give the bits of plans.
void expect_right(const emulation::ForwardCase& c, DType dtype, const std::vector<Way>& ways) {
  Call call(c.attention, {.dtype = dtype, .layout = c.layout});
  if (c.mask) call.mask = *c.mask;
  call.forward();
  Gradients exact =
      call.backward([](const AttentionProblem& p, const Mask& m) { reference_backend().backward(p, m, {}); }, true);
  Gradients naive = call.backward([](const AttentionProblem& p, const Mask& m) { naive_backend().backward(p, m, {}); });
  const BoundMask bound = anymask::bind(call.mask, call.problem.sequences, call.problem.h_q, call.problem.h_kv);
  std::optional<Gradients> planned;
  for (const Way& way : ways) {
    if ((way.band && !why_no_band(bound).empty()) || (way.small && !is_small(c.attention))) continue;
    for (const Schedule now : {Schedule::early, Schedule::late}) {
      SCOPED_TRACE(cat(way.name, now == Schedule::early ? ", early" : ", late"));
      emulation::schedule = now;
      Gradients got = call.backward([&](const AttentionProblem& p, const Mask& m) { run(p, m, way); });
      expect_right(got, naive, exact, dtype);
      if (way.deterministic && !way.band && now == Schedule::early) {
        planned = std::move(got);
      } else if (way.deterministic && planned) {
        EXPECT_TRUE(got.dq.bytes() == planned->dq.bytes() && got.dk.bytes() == planned->dk.bytes() &&
                    got.dv.bytes() == planned->dv.bytes())
            << "other bits than with a plan";
      }
    }
  }
}

const std::vector<Way> ways = {
    {.name = "plans", .band = false, .small = false},
    {.name = "bands", .band = true, .small = false},
    {.name = "plans, deterministic", .band = false, .small = false, .deterministic = true},
    {.name = "bands, deterministic", .band = true, .small = false, .deterministic = true},
    {.name = "one launch", .band = true, .small = true},
};

struct Types {
  DType dtype;
  int64_t d_qk, d_v;
  friend std::ostream& operator<<(std::ostream& out, const Types& types) {
    return out << name_of(types.dtype) << ' ' << types.d_qk << ' ' << types.d_v;
  }
};
class Sm80AttentionBwd : public testing::TestWithParam<Types> {};
// Each compiled head-dim class, in its own head dims or in narrower ones, and those of calls in one launch.
INSTANTIATE_TEST_SUITE_P(Emulated, Sm80AttentionBwd,
                         testing::Values(Types{DType::bf16, 16, 16}, Types{DType::f16, 8, 24},
                                         Types{DType::f16, 64, 40}, Types{DType::bf16, 96, 96},
                                         Types{DType::bf16, 128, 128}, Types{DType::f16, 136, 192},
                                         Types{DType::f16, 256, 256}),
                         [](const auto& of) {
                           return cat(name_of(of.param.dtype), "_", of.param.d_qk, "_", of.param.d_v);
                         });

TEST_P(Sm80AttentionBwd, MatchesTheReference) {
  const emulation::ForwardCase list[] = {
      {.attention = {.name = "causal", .mask = "causal", .b = 2, .s_q = 200, .s_kv = 200}},
      {.attention = {.name = "heads",
                     .mask = "documents([0, 7, 7, 130, 131, 180])",
                     .s_q = 180,
                     .s_kv = 180,
                     .h_q = 4,
                     .h_kv = 2,
                     .dlse = true},
       .layout = test::Layout::head_major_padded},
  };
  for (emulation::ForwardCase c : list) {
    c.attention.d_qk = GetParam().d_qk;
    c.attention.d_v = GetParam().d_v;
    SCOPED_TRACE(c.attention.name);
    expect_right(c, GetParam().dtype, ways);
  }
}

TEST(Sm80AttentionBwd, MatchesTheReferenceInSmallCases) {
  for (const cases::AttentionCase& c : cases::small_cases()) {
    if (!c.bias.empty()) continue;
    SCOPED_TRACE(c.name);
    expect_right({c}, DType::bf16, {ways[0], ways[3], ways[4]});
  }
}

TEST(Sm80AttentionBwd, MatchesTheReferenceInBands) {
  for (emulation::ForwardCase c : emulation::band_cases()) {
    c.attention.d_qk = c.attention.d_v = 16;
    SCOPED_TRACE(c.attention.name);
    expect_right(c, DType::bf16, ways);
  }
}

TEST(Sm80AttentionBwd, MatchesTheReferenceInRandomBands) {
  for (uint64_t seed = 100; seed < 112; ++seed) {
    emulation::ForwardCase c = emulation::random_band_case(seed);
    c.attention.d_qk = c.attention.d_v = seed % 2 == 0 ? 16 : 64;
    SCOPED_TRACE(cat("seed ", seed, ": ", c.mask->str()));
    expect_right(c, DType::f16, ways);
  }
}

TEST(Sm80AttentionBwd, MatchesTheReferenceElementByElementAndInLessMemory) {
  emulation::ForwardCase c{.attention = {.name = "window", .mask = "window(70, 3)", .s_q = 150, .s_kv = 190}};
  for (const int64_t d : {24, 64, 128}) {
    c.attention.d_qk = c.attention.d_v = d;
    expect_right(c, DType::bf16,
                 {{.name = "bands, 99 KB", .band = true, .small = false, .shared_bytes = 101376},
                  {.name = "bands, element by element", .band = true, .small = false, .aligned = false},
                  {.name = "one launch, element by element", .band = true, .small = true, .aligned = false}});
  }
}

// The rows that keep a key, computed from the ends of rows, are those that keep it.
TEST(BandColumns, AreTheTransposeOfRows) {
  const auto check = [](const emulation::ForwardCase& c) {
    Call call(c.attention, {.dtype = DType::bf16});
    if (c.mask) call.mask = *c.mask;
    const BoundMask bound = anymask::bind(call.mask, call.problem.sequences, call.problem.h_q, call.problem.h_kv);
    const BandSource source(bound, call.problem, {.tile_m = 64, .transposed = true});
    ASSERT_EQ(source.refusal(), "");
    std::vector<uint64_t> block(source.bytes() / sizeof(uint64_t) + 2);
    CudaBand band{};
    source.enqueue(band, block.data(), nullptr);
    for (size_t n = 0; n < bound.planes.size(); ++n) {
      const PlaneMask& plane = bound.planes[n];
      for (int32_t key = 0; key < plane.s_kv; ++key) {
        const KeyRange rows = band_column(band, static_cast<int32_t>(n), key);
        for (int32_t q = 0; q < plane.s_q; ++q)
          ASSERT_EQ(rows.begin <= q && q < rows.end, plane.keep(q, key)) << call.mask.str() << ": " << q << ", " << key;
      }
    }
  };
  for (const emulation::ForwardCase& c : emulation::band_cases()) {
    SCOPED_TRACE(c.attention.name);
    check(c);
  }
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    check(emulation::random_band_case(seed));
  }
}

}  // namespace
}  // namespace anymask
