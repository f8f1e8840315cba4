#include "cpu/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "cpu/bf16_dot.h"
#include "cpu/scratch.h"
#include "cpu/simd.h"
#include "cpu/targets.h"
#include "cpu/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "cpu/forward_products-inl.h"

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

constexpr int64_t kProductRows = 60, kProductKeys = 2048;

// Floats that ProductsWork wants.
int64_t ProductsFloats(int64_t d) {
  const int64_t d_up = (d + kPanel - 1) / kPanel * kPanel;
  return kProductKeys * (d + d_up) + kProductRows * (Fp32Products::kQueryStride + d_up) + kRows * score_stride;
}

// One sweep of the rows over all keys; `memory` holds small numbers. Returns the operations done.
double ProductsWork(int64_t d, float* memory) {
  const int64_t d_up = (d + kPanel - 1) / kPanel * kPanel;
  const float* k = memory;
  const float* v = k + kProductKeys * d;
  const float* q = v + kProductKeys * d_up;
  float* o = memory + kProductKeys * (d + d_up) + kProductRows * Fp32Products::kQueryStride;
  float* s = o + kProductRows * d_up;
  alignas(64) float alpha[kRows];
  std::fill_n(alpha, kRows, 0.5f);
  for (int64_t key = 0; key < kProductKeys; key += chunk_tiles * tile_keys) {
    Fp32Products::Segment segments[chunk_tiles];
    for (int32_t j = 0; j < chunk_tiles; ++j) {
      segments[j] = {v + (key + j * tile_keys) * d_up, static_cast<int32_t>(j * tile_keys),
                     static_cast<int32_t>(tile_keys)};
    }
    for (int64_t row = 0; row < kProductRows; row += kRows) {
      for (int64_t c = 0; c < chunk_tiles * tile_keys; c += kPanel)
        Fp32Products::Scores(kRows, q + row * Fp32Products::kQueryStride, k + (key + c) * d, d, 1.f, s + c);
      for (int64_t c = 0; c < d; c += kPanel) {
        Fp32Products::Accumulate(kRows, s, segments, chunk_tiles, c * tile_keys, d - c <= kLanes, alpha,
                                 o + row * d_up + c, d_up);
      }
    }
  }
  return static_cast<double>(kProductRows * kProductKeys * d) * 4;
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anymask {
HWY_EXPORT(FmaWork);
HWY_EXPORT(ProductsFloats);
HWY_EXPORT(ProductsWork);

namespace {

using Clock = std::chrono::steady_clock;

// The rate of `threads` threads that each run `work`, which returns operations done, until the time is over: as many
// times the mean of those that came, for what is asked for is the rate of cores at work, not of waking them. They begin
// together where they come within a millisecond.
template <class Work>
double rate_of(int threads, const Work& work) {
  constexpr auto enough = std::chrono::microseconds(1500), patience = std::chrono::microseconds(1000);
  std::vector<double> rate(static_cast<size_t>(threads));
  std::atomic<int> here{0};
  run_on_threads(threads, [&](int participant) {
    here.fetch_add(1);
    const auto came = Clock::now();
    while (here.load(std::memory_order_relaxed) < threads && Clock::now() - came < patience) spin_pause();
    double done = 0;
    const auto begin = Clock::now();
    auto now = begin;
    do {
      done += work(participant);
      now = Clock::now();
    } while (now - begin < enough);
    rate[static_cast<size_t>(participant)] = done / std::chrono::duration<double>(now - begin).count();
  });
  double sum = 0;
  int came = 0;
  for (const double r : rate) {
    sum += r;
    came += r > 0;
  }
  return sum / came * threads;
}

}  // namespace

double cpu_peak(DType dtype, int num_threads) {
  if (dtype == DType::bf16 && !use_bf16_dot()) return 0;
  constexpr int64_t iterations = 50'000;  // 50 to 200 us
  return rate_of(resolve_threads(num_threads), [dtype](int) {
    float sink[3] = {0.999f, 0.001f, 0};
    return dtype == DType::bf16 ? bf16_dot::peak_work(iterations) : HWY_DYNAMIC_DISPATCH(FmaWork)(iterations, sink);
  });
}

double cpu_products(int64_t head_dim, int num_threads) {
  const int threads = resolve_threads(num_threads);
  const int64_t floats = HWY_DYNAMIC_DISPATCH(ProductsFloats)(head_dim);
  static thread_local std::vector<Scratch> kept;  // of the caller: memory is touched once
  kept.resize(std::max(kept.size(), static_cast<size_t>(threads)));
  std::vector<float*> memory;
  for (int i = 0; i < threads; ++i) {
    Scratch& scratch = kept[static_cast<size_t>(i)];
    const bool fresh = scratch.bytes() < static_cast<size_t>(floats) * sizeof(float);
    memory.push_back(scratch.get<float>(floats));
    if (fresh) std::fill_n(memory.back(), floats, 0.01f);
  }
  return rate_of(threads, [&](int participant) {
    return HWY_DYNAMIC_DISPATCH(ProductsWork)(head_dim, memory[static_cast<size_t>(participant)]);
  });
}

}  // namespace anymask
#endif
