// sm80_attention_fwd from its own source on the emulator, with its launcher and
// configuration, against the reference.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <ostream>

#include "core/error.h"
#include "cuda/emulation/forward_check.h"
#include "cuda/emulation/launches.h"
#include "cuda/launch/sm80_attention_fwd.h"

namespace anymask {

extern unsigned char memory[emulation::sm80_shared_bytes];
alignas(1024) unsigned char memory[emulation::sm80_shared_bytes];

namespace {

// `shared_bytes` decides between one stage of K and V and two.
void run(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c, int32_t shared_bytes,
         bool aligned) {
  CudaDevice device;
  device.major = 8;
  device.num_sms = 2;
  device.shared_bytes = shared_bytes;
  Sm80ForwardConfig config = choose_sm80_attention_fwd(problem, true, device);
  config.aligned &= aligned;
  config.fold = c.fold;
  emulation::launch_forward(problem, mask, c, config.shape.tile_m(), [&](const AttentionParams& params) {
    launch_sm80_attention_fwd(params, config, device, nullptr);
    if (params.partial_out == nullptr) return;
    config.dtype == DType::bf16 ? emulation::run_combine<__nv_bfloat16>(params)
                                : emulation::run_combine<__half>(params);
  });
}
void forward(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c) {
  run(problem, mask, c, emulation::sm80_shared_bytes, true);
}
// A block of Ada: 99 KB.
void forward_in_less_memory(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c) {
  run(problem, mask, c, 101376, true);
}
void forward_element_by_element(const AttentionProblem& problem, const Mask& mask, const emulation::ForwardCase& c) {
  run(problem, mask, c, emulation::sm80_shared_bytes, false);
}

// Modified scores belong to one head a tile: the configuration folds none.
bool computes(const emulation::ForwardCase& c) {
  return c.fold == 1 || (c.attention.bias.empty() && !c.attention.alibi && c.attention.softcap == 0);
}

struct Types {
  DType dtype;
  int64_t d_qk, d_v;
  friend std::ostream& operator<<(std::ostream& out, const Types& types) {
    return out << name_of(types.dtype) << ' ' << types.d_qk << ' ' << types.d_v;
  }
};
class Sm80AttentionFwd : public testing::TestWithParam<Types> {};
// Each compiled shape, in its own head dims or in narrower ones. Both types share all but the product.
INSTANTIATE_TEST_SUITE_P(Emulated, Sm80AttentionFwd,
                         testing::Values(Types{DType::bf16, 16, 16}, Types{DType::f16, 8, 16},
                                         Types{DType::f16, 32, 24}, Types{DType::bf16, 64, 64},
                                         Types{DType::f16, 40, 64}, Types{DType::f16, 96, 96},
                                         Types{DType::bf16, 128, 128}, Types{DType::f16, 136, 72},
                                         Types{DType::bf16, 152, 192}, Types{DType::f16, 256, 256}),
                         [](const auto& of) {
                           return cat(name_of(of.param.dtype), "_", of.param.d_qk, "_", of.param.d_v);
                         });

TEST_P(Sm80AttentionFwd, MatchesTheReference) {
  for (emulation::ForwardCase c : emulation::forward_cases()) {
    if (!computes(c)) continue;
    c.attention.d_qk = GetParam().d_qk;
    c.attention.d_v = GetParam().d_v;
    SCOPED_TRACE(c.attention.name);
    expect_close(c, GetParam().dtype, &forward);
  }
}

TEST(Sm80AttentionFwd, MatchesTheReferenceInLessMemory) {
  for (emulation::ForwardCase c : emulation::forward_cases()) {
    if (!computes(c)) continue;
    c.attention.d_qk = c.attention.d_v = 128;
    SCOPED_TRACE(c.attention.name);
    expect_close(c, DType::f16, &forward_in_less_memory);
  }
}

TEST(Sm80AttentionFwd, MatchesTheReferenceElementByElement) {
  for (emulation::ForwardCase c : emulation::forward_cases()) {
    if (!computes(c)) continue;
    c.attention.d_qk = c.attention.d_v = 64;
    SCOPED_TRACE(c.attention.name);
    expect_close(c, DType::bf16, &forward_element_by_element);
  }
}

TEST(Sm80AttentionFwd, MatchesTheReferenceInSmallCases) {
  for (const cases::AttentionCase& c : cases::small_cases()) {
    SCOPED_TRACE(c.name);
    expect_close({c}, DType::bf16, &forward);
  }
}

TEST(Sm80AttentionFwd, BandsMatchPlans) {
  for (const emulation::ForwardCase& c : emulation::band_cases()) {
    SCOPED_TRACE(c.attention.name);
    EXPECT_TRUE(expect_close(c, DType::bf16, &forward));
  }
}

TEST(Sm80AttentionFwd, CutBandsMatchPlans) {
  for (emulation::ForwardCase c : emulation::cut_band_cases()) {
    SCOPED_TRACE(c.attention.name);
    EXPECT_TRUE(expect_close(c, DType::bf16, &forward));
  }
}

TEST(Sm80AttentionFwd, RandomBandsMatchPlans) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    emulation::ForwardCase c = emulation::random_band_case(seed);
    c.attention.d_qk = c.attention.d_v = seed % 2 == 0 ? 32 : 64;
    SCOPED_TRACE(cat("seed ", seed, ": ", c.mask->str()));
    expect_close(c, DType::f16, &forward);
  }
}

TEST(Sm80AttentionFwd, FoldsHeadsWhereThatSavesTiles) {
  struct Choice {
    int64_t s_q, h_q, h_kv;
    bool shared, softcap;
    int32_t fold;
  };
  for (const Choice& c :
       {Choice{1, 32, 8, true, false, 4}, Choice{64, 32, 8, true, false, 2}, Choice{4096, 32, 8, true, false, 1},
        Choice{1, 32, 8, false, false, 1}, Choice{1, 32, 8, true, true, 1}, Choice{1, 64, 1, true, false, 16}}) {
    AttentionProblem problem;
    problem.dtype = DType::bf16;
    problem.h_q = c.h_q;
    problem.h_kv = c.h_kv;
    problem.d_qk = problem.d_v = 128;
    problem.softmax_scale = 1;
    problem.softcap = c.softcap ? 30 : 0;
    problem.sequences = {{0, 0, c.s_q, 0, 4096}};
    EXPECT_EQ(choose_sm80_attention_fwd(problem, c.shared, 132, 232448).fold, c.fold)
        << c.s_q << " rows of " << c.h_q << " heads, " << c.h_kv << " of keys";
  }
}

}  // namespace
}  // namespace anymask
