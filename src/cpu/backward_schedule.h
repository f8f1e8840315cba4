// Which thread does what in the backward, and when it may add to memory that others add to.
//
// A task is one chunk of keys of one kv head of one sequence: a *head* here is a (sequence, kv head). Tasks are claimed
// in a fixed order, heads ascending by `order` and chunks ascending inside a head; each walks its blocks of query rows
// downwards. Sums that several tasks contribute to are formed in that order too, so results do not depend on who runs
// what:
//
//   dQ of a block      chunk after chunk of the head
//   dbias of a block   (bias shared by heads or batch entries) head after head, the same chunk
//
// A task therefore waits, block by block, until every earlier contributor has gone past the block. It waits only for
// tasks claimed before its own, which run: so there is no deadlock and nobody waits for a sleeper. Downwards, because
// under causal masks and windows a chunk then begins with rows that earlier chunks do not touch or have passed long
// ago: threads trail each other like a wave, and the longest chunks of a causal mask come first.
//
// With few chunks a head, as many heads as there are threads advance together, chunk by chunk, so that threads rarely
// meet. That changes who waits, not any sum.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"

namespace anymask::backward {

struct Head {
  int32_t sequence = 0, kv_head = 0;
  int32_t chunks = 0;
  int64_t first_task = 0;  // index of its chunk 0 in progress
};

struct Task {
  int32_t head = 0, chunk = 0;
};

// Keys of a chunk: a multiple of 64, a function of the shapes alone.
int64_t choose_chunk(const AttentionProblem& problem);

class Schedule {
 public:
  Schedule(const AttentionProblem& problem, int64_t chunk, int threads);

  const std::vector<Head>& heads() const { return heads_; }
  int32_t order(int64_t sequence, int64_t kv_head) const {
    return order_[static_cast<size_t>(sequence * h_kv_ + kv_head)];
  }
  int64_t num_tasks() const { return static_cast<int64_t>(tasks_.size()); }

  // The next task, or false when none is left, or none is worth doing after a failure.
  bool claim(Task& task);

  // The task is about to work on `block`, and has finished those above it that it works on. Throws once the call was
  // abandoned.
  void enter(const Task& task, int64_t block) {
    if (abandoned()) give_up();
    progress_of(task).store(static_cast<int32_t>(block), std::memory_order_release);
  }
  // The task has finished. True for the last task of its head to do so.
  bool leave(const Task& task);

  // Returns when the earlier chunks of the task's head are past `block`. `first`, 0 at a task's start, is kept between
  // its calls: chunks before it have finished.
  void wait_for_chunks(const Task& task, int64_t block, int32_t& first);
  // Returns when chunk task.chunk of those earlier heads for which `shares(head)` holds is past `block`.
  template <class Shares>
  void wait_for_heads(const Task& task, int64_t block, Shares&& shares) {
    int32_t first = finished_heads_.load(std::memory_order_acquire);
    while (first < task.head && heads_left_[static_cast<size_t>(first)].load(std::memory_order_acquire) == 0) ++first;
    int32_t known = finished_heads_.load(std::memory_order_relaxed);
    while (known < first && !finished_heads_.compare_exchange_weak(known, first, std::memory_order_acq_rel)) {
    }
    for (int32_t h = first; h < task.head; ++h) {
      const Head& head = heads_[static_cast<size_t>(h)];
      if (task.chunk < head.chunks && shares(head)) wait_past(Task{h, task.chunk}, block);
    }
  }

  // A thread failed: whoever waits for it throws too.
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  // One step of a wait. Throws once the call was abandoned.
  void pause(int64_t step) const;

 private:
  static constexpr int32_t not_begun = INT32_MAX, finished = -1;

  std::atomic<int32_t>& progress_of(const Task& task) const {
    return progress_[static_cast<size_t>(heads_[static_cast<size_t>(task.head)].first_task + task.chunk)];
  }
  [[noreturn]] static void give_up();
  void wait_past(const Task& task, int64_t block) const;

  int64_t h_kv_ = 1;
  std::vector<Head> heads_;                             // by order: longest sequences first
  std::vector<int32_t> order_;                          // [sequences, h_kv]
  std::vector<Task> tasks_;                             // as claimed
  std::unique_ptr<std::atomic<int32_t>[]> progress_;    // a task's lowest block begun
  std::unique_ptr<std::atomic<int32_t>[]> heads_left_;  // chunks not finished
  std::atomic<int64_t> next_{0};
  std::atomic<int32_t> finished_heads_{0};  // so many heads from the first are known to be finished
  std::atomic<bool> abandoned_{false};
};

}  // namespace anymask::backward
