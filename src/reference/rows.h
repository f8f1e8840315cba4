// What the reference and the yardstick share: walking the kept keys of a row, reading head panels, running heads side
// by side.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/problem.h"
#include "mask/bound_mask.h"

namespace anymask {

// The kept keys of one row, ascending.
class KeptKeys {
 public:
  std::span<const int64_t> of(const PlaneMask& plane, int64_t row);

 private:
  std::vector<uint64_t> words_;
  std::vector<int64_t> keys_;
};

// Rows [begin, begin + rows) of one head, as doubles: [rows, dim], contiguous.
std::vector<double> read_panel(const Tensor4& t, int64_t batch, int64_t begin, int64_t rows, int64_t head, int64_t dim);
// The other way, rounded once.
void write_panel(const Tensor4& t, int64_t batch, int64_t begin, int64_t rows, int64_t head, int64_t dim,
                 const double* values);

// -slope * |p - kv| has this slope; 0 without ALiBi.
double alibi_slope(const AttentionProblem& problem, int64_t sequence, int64_t head);

// A gradient of the bias's shape, accumulated in double: broadcast dimensions sum, dropped pairs stay 0.
class BiasGradient {
 public:
  explicit BiasGradient(const AttentionProblem& problem);
  bool wanted() const { return !sums_.empty(); }
  void add(int64_t sequence, int64_t head, int64_t row, int64_t key, double value);
  void write() const;

 private:
  const Bias& bias_;
  std::vector<double> sums_;
};

// What a task asks at every row, so that a call that is over ends soon: throws where another task has failed, or where
// the caller says stop.
class Going {
 public:
  void on() const;
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> stopped_{false};
};

// Calls task(sequence, kv_head, going) for every pair, on several threads. Tasks share nothing but what they read, and
// so give the same results in any order; `serial` (set where they add into one sum) runs them one by one in ascending
// order. The first error is thrown.
void for_each_kv_head(const AttentionProblem& problem, bool serial,
                      const std::function<void(int64_t, int64_t, const Going&)>& task);

}  // namespace anymask
