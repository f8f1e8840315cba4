#include "cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "cpu/bf16_dot.h"
#include "cpu/simd.h"
#include "cpu/targets.h"
#include "cpu/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve independent sums: two multiply-adds a cycle of latency 4 or 5 need ten. Returns the operations done.
double FmaWork(int64_t iterations, float* sink) {
  const hn::ScalableTag<float> d;
  constexpr int kSums = 12;
  hn::Vec<decltype(d)> acc[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  const auto x = hn::Set(d, sink[0]), y = hn::Set(d, sink[1]);
  for (int64_t it = 0; it < iterations; ++it) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) acc[i] = hn::MulAdd(acc[i], x, y);
  }
  for (int i = 1; i < kSums; ++i) acc[0] = hn::Add(acc[0], acc[i]);
  sink[2] = hn::GetLane(acc[0]);
  return static_cast<double>(iterations) * kSums * 2 * static_cast<double>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anymask {
HWY_EXPORT(FmaWork);

double cpu_peak(DType dtype, int num_threads) {
  if (dtype == DType::bf16 && !use_bf16_dot()) return 0;
  using Clock = std::chrono::steady_clock;
  constexpr int64_t iterations = 400'000;  // 1-3 ms
  const int threads = resolve_threads(num_threads);
  std::vector<double> rate(static_cast<size_t>(threads));
  double best = 0;
  for (int run = 0; run < 8; ++run) {
    std::fill(rate.begin(), rate.end(), 0.0);
    // Each thread that comes measures itself: what is asked for is the rate of cores at work, not of waking them.
    run_on_threads(threads, [&](int participant) {
      float sink[3] = {0.999f, 0.001f, 0};
      const auto begin = Clock::now();
      const double done =
          dtype == DType::bf16 ? bf16_dot::peak_work(iterations) : HWY_DYNAMIC_DISPATCH(FmaWork)(iterations, sink);
      rate[static_cast<size_t>(participant)] = done / std::chrono::duration<double>(Clock::now() - begin).count();
    });
    double sum = 0;
    for (const double r : rate) sum += r;
    best = std::max(best, sum);
  }
  return best;
}

}  // namespace anymask
#endif
