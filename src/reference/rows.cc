#include "reference/rows.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "reference/elements.h"

namespace anymask {

std::span<const int64_t> KeptKeys::of(const PlaneMask& plane, int64_t row) {
  keys_.clear();
  const int64_t words = (plane.s_kv + 63) / 64;
  if (words == 0) return keys_;
  words_.resize(static_cast<size_t>(words));
  plane.words(row, 1, 0, words, words_.data());
  for (int64_t w = 0; w < words; ++w)
    for (uint64_t bits = words_[static_cast<size_t>(w)]; bits != 0; bits &= bits - 1)
      keys_.push_back(64 * w + std::countr_zero(bits));
  return keys_;
}

std::vector<double> read_panel(const Tensor4& t, int64_t batch, int64_t begin, int64_t rows, int64_t head,
                               int64_t dim) {
  std::vector<double> panel(static_cast<size_t>(rows * dim));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t base = batch * t.stride_b + (begin + i) * t.stride_s + head * t.stride_h;
    for (int64_t d = 0; d < dim; ++d) panel[static_cast<size_t>(i * dim + d)] = load(t.data, t.dtype, base + d);
  }
  return panel;
}

void write_panel(const Tensor4& t, int64_t batch, int64_t begin, int64_t rows, int64_t head, int64_t dim,
                 const double* values) {
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t base = batch * t.stride_b + (begin + i) * t.stride_s + head * t.stride_h;
    for (int64_t d = 0; d < dim; ++d) store(t.data, t.dtype, base + d, values[i * dim + d]);
  }
}

double alibi_slope(const AttentionProblem& problem, int64_t sequence, int64_t head) {
  const PerHead& alibi = problem.alibi;
  return alibi.defined() ? load(alibi.data, alibi.dtype, sequence * alibi.stride_b + head * alibi.stride_h) : 0;
}

BiasGradient::BiasGradient(const AttentionProblem& problem) : bias_(problem.dbias) {
  if (bias_.defined())
    sums_.resize(static_cast<size_t>(bias_.shape[0] * bias_.shape[1] * bias_.shape[2] * bias_.shape[3]));
}

void BiasGradient::add(int64_t sequence, int64_t head, int64_t row, int64_t key, double value) {
  const int64_t b = bias_.shape[0] == 1 ? 0 : sequence;
  const int64_t h = bias_.shape[1] == 1 ? 0 : head / bias_.group;
  const int64_t r = bias_.shape[2] == 1 ? 0 : row;
  sums_[static_cast<size_t>(((b * bias_.shape[1] + h) * bias_.shape[2] + r) * bias_.shape[3] + key)] += value;
}

void BiasGradient::write() const {
  size_t at = 0;
  if (sums_.empty()) return;
  for (int64_t b = 0; b < bias_.shape[0]; ++b)
    for (int64_t h = 0; h < bias_.shape[1]; ++h)
      for (int64_t r = 0; r < bias_.shape[2]; ++r)
        for (int64_t k = 0; k < bias_.shape[3]; ++k)
          store(bias_.data, bias_.dtype,
                b * bias_.stride_b + h * bias_.stride_h + r * bias_.stride_q + k * bias_.stride_kv, sums_[at++]);
}

void Going::on() const {
  poll_interrupt();
  if (stopped_.load(std::memory_order_relaxed)) throw Error(Status::internal, "attention: another thread failed");
}

void for_each_kv_head(const AttentionProblem& problem, bool serial,
                      const std::function<void(int64_t, int64_t, const Going&)>& task) {
  const int64_t tasks = static_cast<int64_t>(problem.sequences.size()) * problem.h_kv;
  std::atomic<int64_t> next = 0;
  Going going;
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    for (int64_t i = next++; i < tasks; i = next++) {
      try {
        task(i / problem.h_kv, i % problem.h_kv, going);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next = tasks;
        going.stop();
      }
    }
  };
  const int64_t cores =
      problem.num_threads > 0 ? problem.num_threads : static_cast<int64_t>(std::thread::hardware_concurrency());
  const int64_t helpers = serial ? 0 : std::min(cores, tasks) - 1;
  std::vector<std::thread> threads;
  try {
    for (int64_t i = 0; i < helpers; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: the ones there are do all the work.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace anymask
