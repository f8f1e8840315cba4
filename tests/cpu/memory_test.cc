// What a call holds beyond its tensors, at a length where anything quadratic would show.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "cpu/backward.h"
#include "cpu/forward.h"
#include "mask/mask.h"

namespace anymask {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ANYMASK_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ANYMASK_SANITIZED 1
#endif

// Of this process, in MiB: "VmHWM:" the most it has held since reset_peak, "VmRSS:" what it holds.
double resident(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(what, 0) == 0) return std::atof(line.c_str() + what.size()) / 1024;
  }
  return 0;
}
bool reset_peak() {
  std::ofstream refs("/proc/self/clear_refs");
  refs << "5" << std::flush;
  return refs.good() && resident("VmHWM:") > 0;
}

// 65,536 tokens, 4 heads of 64, forward and backward: inputs and outputs, and 64 MiB a thread.
TEST(Memory, StaysLinearAtSixtyFourThousandTokens) {
#if defined(ANYMASK_SANITIZED)
  GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
  constexpr int64_t tokens = 65536, heads = 4, d = 64, elements = tokens * heads * d;
  constexpr int threads = 2;
  const auto memory = std::make_unique<float[]>(8 * elements + heads * tokens);
  for (int64_t i = 0; i < 8 * elements + heads * tokens; ++i)
    memory[static_cast<size_t>(i)] = static_cast<float>(i * 7919 % 2001 - 1000) / 1000;
  int64_t used = 0;
  const auto take = [&](int64_t n) {
    used += n;
    return memory.get() + used - n;
  };
  const auto tensor = [&] { return Tensor4{take(elements), DType::f32, elements, heads * d, d, true}; };

  AttentionProblem problem;
  problem.h_q = problem.h_kv = heads;
  problem.d_qk = problem.d_v = d;
  problem.sequences = {{0, 0, tokens, 0, tokens}};
  problem.max_s_q = problem.max_s_kv = tokens;
  problem.softmax_scale = 0.125;
  problem.num_threads = threads;
  problem.q = tensor();
  problem.k = tensor();
  problem.v = tensor();
  problem.out = tensor();
  problem.dout = tensor();
  problem.dq = tensor();
  problem.dk = tensor();
  problem.dv = tensor();
  problem.lse = {take(heads * tokens), DType::f32, heads * tokens, tokens, 1, true};

  const Mask mask = Mask::parse("causal & window(127, 0)");
  if (!reset_peak()) GTEST_SKIP() << "this system does not tell a process the most memory it held";
  const double before = resident("VmRSS:");
  cpu_forward(problem, mask);
  cpu_backward(problem, mask);
  EXPECT_LT(resident("VmHWM:") - before, 64.0 * threads);
}

}  // namespace
}  // namespace anymask
