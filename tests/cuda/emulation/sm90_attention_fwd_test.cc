// sm90_attention_fwd from its own source on the emulator, with its launcher, configuration and tensor maps, against the
// reference.
#include <gtest/gtest.h>

#include <ostream>

#include "core/error.h"
#include "cuda/emulation/forward_check.h"
#include "cuda/emulation/launches.h"
#include "cuda/launch/sm90_attention_fwd.h"

namespace anymask {

namespace sm90 {
extern uint8_t shared_bytes[emulation::sm90_shared_bytes];
alignas(1024) uint8_t shared_bytes[emulation::sm90_shared_bytes];
}  // namespace sm90

namespace {

// `long_rows`: on the shape for these, whatever the rows are.
void forward(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c, bool long_rows) {
  CudaDevice device;
  device.major = 9;
  device.num_sms = 2;
  device.shared_bytes = emulation::sm90_shared_bytes;
  const Support support = sm90_attention_fwd_supports(problem, device, true);
  ASSERT_TRUE(support.yes) << support.reason;
  Sm90ForwardConfig config = choose_sm90_attention_fwd(problem, {}, device);
  if (long_rows && !config.modified) {
    ASSERT_TRUE(sm90_forward_shapes[config.shape_index + 1].long_rows);
    config.shape = sm90_forward_shape(++config.shape_index, false);
  }
  config.fold = c.fold;
  emulation::ForwardCase now = c;
  now.band &= config.shape.bands();
  emulation::launch_forward(problem, mask, now, config.shape.tile_m(), [&](const AttentionParams& params) {
    launch_sm90_attention_fwd(params, config, device, nullptr);
  });
}

void on_usual_shape(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c) {
  forward(problem, mask, c, false);
}

struct Types {
  DType dtype;
  int64_t d_qk, d_v;
  bool long_rows = false;
  friend std::ostream& operator<<(std::ostream& out, const Types& types) {
    return out << name_of(types.dtype) << ' ' << types.d_qk << ' ' << types.d_v
               << (types.long_rows ? " long rows" : "");
  }
};
class Sm90AttentionFwd : public testing::TestWithParam<Types> {};
// Both types of each compiled shape, in its own head dims and in narrower ones.
INSTANTIATE_TEST_SUITE_P(Emulated, Sm90AttentionFwd,
                         testing::Values(Types{DType::bf16, 64, 64}, Types{DType::f16, 40, 24},
                                         Types{DType::bf16, 128, 128}, Types{DType::f16, 72, 104},
                                         Types{DType::bf16, 128, 128, true}, Types{DType::f16, 72, 104, true},
                                         Types{DType::bf16, 96, 96}, Types{DType::f16, 72, 88},
                                         Types{DType::bf16, 96, 96, true}, Types{DType::f16, 80, 72, true},
                                         Types{DType::bf16, 192, 128}, Types{DType::f16, 136, 128},
                                         Types{DType::bf16, 256, 256}, Types{DType::f16, 136, 200}),
                         [](const auto& of) {
                           return cat(name_of(of.param.dtype), "_", of.param.d_qk, "_", of.param.d_v,
                                      of.param.long_rows ? "_long_rows" : "");
                         });

TEST_P(Sm90AttentionFwd, MatchesTheReference) {
  for (emulation::ForwardCase c : emulation::forward_cases()) {
    c.attention.d_qk = GetParam().d_qk;
    c.attention.d_v = GetParam().d_v;
    SCOPED_TRACE(c.attention.name);
    emulation::expect_close(c, GetParam().dtype,
                            [](const AttentionProblem& p, const Mask& mask, const emulation::ForwardCase& on) {
                              forward(p, mask, on, GetParam().long_rows);
                            });
  }
}

// Of 32 query heads over 8: keys that stand in long stretches of a row, and the tile's rows.
TEST(Sm90AttentionFwd, TakesMoreRowsWhereTheyAreLong) {
  struct Choice {
    const char* mask;
    int64_t s, d, low, high;
    int32_t tile_m;
    bool modified = false;
  };
  for (const Choice& c :
       {Choice{"full", 4096, 128, 4096, 4096, 192}, Choice{"full", 3800, 128, 0, 0, 128},
        Choice{"causal", 16384, 128, 7000, 8192, 192}, Choice{"causal", 4096, 96, 1500, 2048, 128},
        Choice{"causal & window(1023, 0)", 16384, 128, 0, 0, 128},
        Choice{"causal & documents([0, 200, 16384])", 16384, 128, 7000, 8192, 192},
        Choice{"shared_prefix(12000, [100, 4284])", 16384, 80, 7000, 9000, 192}, Choice{"none", 16384, 128, 0, 0, 128},
        Choice{"causal & stride(2)", 16384, 128, 0, 0, 128}, Choice{"full", 16384, 128, 16384, 16384, 128, true},
        Choice{"full", 16384, 192, 16384, 16384, 128}, Choice{"full", 16384, 64, 16384, 16384, 192}}) {
    AttentionProblem problem;
    problem.dtype = DType::bf16;
    problem.h_q = 32;
    problem.h_kv = 8;
    problem.d_qk = problem.d_v = c.d;
    problem.softmax_scale = 1;
    problem.softcap = c.modified ? 30 : 0;
    problem.sequences = {{0, 0, c.s, 0, c.s}};
    problem.max_s_q = problem.max_s_kv = c.s;
    const MaskFacts facts =
        mask_facts(anymask::bind(Mask::parse(c.mask), problem.sequences, problem.h_q, problem.h_kv), problem.group());
    EXPECT_GE(facts.long_keys, c.low) << c.mask;
    EXPECT_LE(facts.long_keys, c.high) << c.mask;
    CudaDevice device;
    device.num_sms = 132;
    const Sm90ForwardConfig config = choose_sm90_attention_fwd(problem, facts, device);
    EXPECT_EQ(config.shape.tile_m(), c.tile_m) << c.mask << ' ' << c.s << ": " << config;
    problem.sequences = {{0, 0, 1, 0, c.s}};  // one row: few tiles
    EXPECT_FALSE(choose_sm90_attention_fwd(problem, facts, device).shape.long_rows);
  }
}

TEST(Sm90AttentionFwd, ReadsNothingOfMasksOnADeviceToChoose) {
  TensorView offsets{.data = reinterpret_cast<void*>(uintptr_t{64}), .dtype = DType::i64, .rank = 1};
  offsets.shape[0] = 3;
  offsets.stride[0] = 1;
  offsets.device = {DeviceKind::cuda, 0};
  const Array cu[] = {Array::borrow(offsets, "cu")};
  const Sequence sequences[] = {{0, 0, 8192, 0, 8192}};
  const BoundMask mask = anymask::bind(Mask::parse("causal & documents(@cu)", cu), sequences, 2, 2, offsets.device);
  EXPECT_EQ(mask_facts(mask, 1).long_keys, 0);
}

TEST(Sm90AttentionFwd, FoldsHeadsWhereThatSavesTiles) {
  struct Choice {
    int64_t s_q, h_q, h_kv, d;
    bool shared;
    int32_t fold;
  };
  for (const Choice& c :
       {Choice{1, 32, 8, 128, true, 4}, Choice{16, 32, 8, 128, true, 4}, Choice{64, 32, 8, 128, true, 2},
        Choice{96, 32, 8, 128, true, 4}, Choice{100, 32, 8, 128, true, 1}, Choice{128, 32, 8, 128, true, 1},
        Choice{4096, 32, 8, 128, true, 1}, Choice{1, 32, 8, 128, false, 1}, Choice{1, 8, 8, 128, true, 1},
        Choice{1, 12, 2, 128, true, 2}, Choice{1, 64, 1, 64, true, 64}, Choice{1, 256, 1, 128, true, 64}}) {
    AttentionProblem problem;
    problem.dtype = DType::bf16;
    problem.h_q = c.h_q;
    problem.h_kv = c.h_kv;
    problem.d_qk = problem.d_v = c.d;
    problem.sequences = {{0, 0, c.s_q, 0, 4096}, {1, 0, c.s_q, 0, 4096}};
    EXPECT_EQ(choose_sm90_attention_fwd(problem, {.groups_share_plane = c.shared}, {}).fold, c.fold)
        << c.s_q << " rows of " << c.h_q << " heads, " << c.h_kv << " of keys";
  }
}

TEST(Sm90AttentionFwd, MatchesTheReferenceInSmallCases) {
  for (const cases::AttentionCase& c : cases::small_cases()) {
    SCOPED_TRACE(c.name);
    emulation::expect_close({c}, DType::bf16,
                            [](const AttentionProblem& p, const Mask& mask, const emulation::ForwardCase& on) {
                              forward(p, mask, on, false);
                            });
  }
}

TEST(Sm90AttentionFwd, BandsMatchPlans) {
  for (emulation::ForwardCase c : emulation::band_cases()) {
    SCOPED_TRACE(c.attention.name);
    c.attention.d_qk = c.attention.d_v = 128;
    EXPECT_TRUE(expect_close(c, DType::bf16, &on_usual_shape));
    c.attention.d_qk = c.attention.d_v = 256;  // steps of half a tile
    expect_close(c, DType::bf16, &on_usual_shape);
  }
}

TEST(Sm90AttentionFwd, CutBandsMatchPlans) {
  for (emulation::ForwardCase c : emulation::cut_band_cases()) {
    SCOPED_TRACE(c.attention.name);
    c.attention.d_qk = c.attention.d_v = 128;
    EXPECT_TRUE(expect_close(c, DType::bf16, &on_usual_shape));
    c.attention.d_qk = c.attention.d_v = 256;  // steps of half a tile
    EXPECT_TRUE(expect_close(c, DType::f16, &on_usual_shape));
  }
}

TEST(Sm90AttentionFwd, RandomBandsMatchPlans) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    emulation::ForwardCase c = emulation::random_band_case(seed);
    c.attention.d_qk = c.attention.d_v = seed % 2 == 0 ? 96 : 128;
    SCOPED_TRACE(cat("seed ", seed, ": ", c.mask->str()));
    expect_close(c, DType::f16, &on_usual_shape);
  }
}

}  // namespace
}  // namespace anymask
