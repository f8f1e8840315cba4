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

void forward(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c) {
  CudaDevice device;
  device.major = 9;
  device.num_sms = 2;
  device.shared_bytes = emulation::sm90_shared_bytes;
  const Support support = sm90_attention_fwd_supports(problem, device);
  ASSERT_TRUE(support.yes) << support.reason;
  Sm90ForwardConfig config = choose_sm90_attention_fwd(problem, false, device);
  config.fold = c.fold;
  emulation::launch_forward(problem, mask, c, config.shape.tile_m(), [&](const AttentionParams& params) {
    launch_sm90_attention_fwd(params, config, device, nullptr);
  });
}

struct Types {
  DType dtype;
  int64_t d_qk, d_v;
  friend std::ostream& operator<<(std::ostream& out, const Types& types) {
    return out << name_of(types.dtype) << ' ' << types.d_qk << ' ' << types.d_v;
  }
};
class Sm90AttentionFwd : public testing::TestWithParam<Types> {};
// Both types of each compiled shape, in its own head dims and in narrower ones.
INSTANTIATE_TEST_SUITE_P(Emulated, Sm90AttentionFwd,
                         testing::Values(Types{DType::bf16, 64, 64}, Types{DType::f16, 40, 24},
                                         Types{DType::bf16, 128, 128}, Types{DType::f16, 72, 104},
                                         Types{DType::bf16, 192, 128}, Types{DType::f16, 136, 128},
                                         Types{DType::bf16, 256, 256}, Types{DType::f16, 136, 200}),
                         [](const auto& of) {
                           return cat(name_of(of.param.dtype), "_", of.param.d_qk, "_", of.param.d_v);
                         });

TEST_P(Sm90AttentionFwd, MatchesTheReference) {
  for (emulation::ForwardCase c : emulation::forward_cases()) {
    c.attention.d_qk = GetParam().d_qk;
    c.attention.d_v = GetParam().d_v;
    SCOPED_TRACE(c.attention.name);
    expect_close(c, GetParam().dtype, &forward);
  }
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
    EXPECT_EQ(choose_sm90_attention_fwd(problem, c.shared, {}).fold, c.fold)
        << c.s_q << " rows of " << c.h_q << " heads, " << c.h_kv << " of keys";
  }
}

TEST(Sm90AttentionFwd, MatchesTheReferenceInSmallCases) {
  for (const cases::AttentionCase& c : cases::small_cases()) {
    SCOPED_TRACE(c.name);
    expect_close({c}, DType::bf16, &forward);
  }
}

}  // namespace
}  // namespace anymask
