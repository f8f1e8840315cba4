#include "cpu/backward_schedule.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "cpu/backward_tile.h"
#include "cpu/thread_pool.h"

namespace anymask::backward {

int64_t choose_chunk(const AttentionProblem& problem) {
  const int64_t longest = (problem.max_s_kv + 63) / 64 * 64;
  if (longest <= max_chunk) return std::max<int64_t>(64, longest);
  // Long chunks cost least: dQ is read and written, and q and dout are loaded, once a chunk. Shorter ones where the
  // tasks are few and would not divide evenly.
  for (const int64_t chunk : {max_chunk, max_chunk * 3 / 4}) {
    int64_t tasks = 0;
    for (const Sequence& sequence : problem.sequences) tasks += (sequence.s_kv + chunk - 1) / chunk * problem.h_kv;
    if (tasks >= 32 || (tasks >= 8 && tasks % 2 == 0)) return chunk;
  }
  return max_chunk / 2;
}

Schedule::Schedule(const AttentionProblem& problem, int64_t chunk, int threads) : h_kv_(problem.h_kv) {
  const auto n = static_cast<int64_t>(problem.sequences.size());
  std::vector<int32_t> by_length(static_cast<size_t>(n));
  std::iota(by_length.begin(), by_length.end(), 0);
  const auto pairs = [&](int32_t i) {
    const Sequence& sequence = problem.sequences[static_cast<size_t>(i)];
    return static_cast<double>(sequence.s_q) * static_cast<double>(sequence.s_kv);
  };
  std::stable_sort(by_length.begin(), by_length.end(), [&](int32_t a, int32_t b) { return pairs(a) > pairs(b); });

  heads_.reserve(static_cast<size_t>(n * h_kv_));
  order_.resize(static_cast<size_t>(n * h_kv_));
  int64_t tasks = 0;
  for (const int32_t sequence : by_length) {
    const int64_t chunks = (problem.sequences[static_cast<size_t>(sequence)].s_kv + chunk - 1) / chunk;
    for (int32_t kv_head = 0; kv_head < h_kv_; ++kv_head) {
      order_[static_cast<size_t>(sequence * h_kv_ + kv_head)] = static_cast<int32_t>(heads_.size());
      heads_.push_back({sequence, kv_head, static_cast<int32_t>(chunks), tasks});
      tasks += chunks;
    }
  }
  progress_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(tasks));
  for (int64_t i = 0; i < tasks; ++i) progress_[static_cast<size_t>(i)].store(not_begun, std::memory_order_relaxed);
  heads_left_ = std::make_unique<std::atomic<int32_t>[]>(heads_.size());
  for (size_t i = 0; i < heads_.size(); ++i) heads_left_[i].store(heads_[i].chunks, std::memory_order_relaxed);

  // Heads that advance together: where one head has chunks enough for all threads, one at a time keeps the memory in
  // flight small.
  tasks_.reserve(static_cast<size_t>(tasks));
  for (size_t begin = 0; begin < heads_.size();) {
    const size_t width = heads_[begin].chunks >= 8 * threads ? 1 : static_cast<size_t>(threads);
    const size_t end = std::min(heads_.size(), begin + width);
    for (int32_t c = 0; c < heads_[begin].chunks;
         ++c) {  // the longest sequence comes first, but its keys may be the fewer
      for (size_t h = begin; h < end; ++h) {
        if (c < heads_[h].chunks) tasks_.push_back({static_cast<int32_t>(h), c});
      }
    }
    for (size_t h = begin; h < end; ++h) {
      for (int32_t c = heads_[begin].chunks; c < heads_[h].chunks; ++c) tasks_.push_back({static_cast<int32_t>(h), c});
    }
    begin = end;
  }
}

bool Schedule::claim(Task& task) {
  const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
  if (i >= num_tasks() || abandoned()) return false;
  task = tasks_[static_cast<size_t>(i)];
  return true;
}

bool Schedule::leave(const Task& task) {
  progress_of(task).store(finished, std::memory_order_release);
  return heads_left_[static_cast<size_t>(task.head)].fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void Schedule::give_up() { throw Error(Status::internal, "attention: another thread of the backward failed"); }

void Schedule::pause(int64_t step) const {
  if (abandoned()) give_up();
  // Short waits spin; when threads outnumber cores the one waited for needs this one's.
  if (step < 2000) {
    spin_pause();
  } else {
    std::this_thread::yield();
  }
}

void Schedule::wait_past(const Task& task, int64_t block) const {
  const std::atomic<int32_t>& progress = progress_of(task);
  for (int64_t step = 0; progress.load(std::memory_order_acquire) >= block; ++step) pause(step);
}

void Schedule::wait_for_chunks(const Task& task, int64_t block, int32_t& first) {
  while (first < task.chunk && progress_of(Task{task.head, first}).load(std::memory_order_acquire) == finished) ++first;
  for (int32_t c = first; c < task.chunk; ++c) wait_past(Task{task.head, c}, block);
}

}  // namespace anymask::backward
