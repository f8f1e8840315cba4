// The forward's work as one ordered list of tasks, claimed one by one through an atomic counter.
//
// For each *unit* (a kv head of a sequence), in order: tasks that pack stretches of its K and V, then a task for each
// block of rows, heavy first. Units of few blocks have no pack tasks: their blocks pack for themselves. Long rows of a
// call with few blocks are cut into pieces, merged by whoever finishes the last, in order.
//
// A task waits, spinning, only for tasks before it in the list: all of those are claimed, by threads that are running.
// Packed units live in a ring of buffers, which bounds memory: a unit is packed once the unit that held its buffer is
// finished.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/forward.h"

namespace anymask {

class ForwardSchedule {
 public:
  // The task list of a call. Vectors keep their memory from call to call.
  void build(const AttentionProblem& problem, const TileSource& source, ForwardConfig& config);
  void run(const AttentionProblem& problem, const TileSource& source, const ForwardConfig& config);
  int64_t num_tasks() const { return static_cast<int64_t>(tasks_.size()); }

 private:
  struct Task {
    int32_t unit;
    int32_t block;  // of the unit; -1: pack
    int32_t index;  // block: m_block; pack: stretch of tiles
    int32_t piece;
  };
  struct Unit {
    int64_t sequence = 0, kv_head = 0;
    int64_t heads_folded = 1, m_blocks = 0;
    int64_t first_block = 0;                // of the call, for the partial results of split blocks
    int32_t first_tile = 0, num_tiles = 0;  // what is packed
    int32_t ring_position = -1;             // among packed units; -1: blocks pack for themselves
    int32_t previous = -1;                  // the unit that held the ring buffer before
    int32_t pack_tasks = 0, block_tasks = 0;
  };
  struct Progress {
    std::atomic<int32_t> packed{0}, finished{0};
  };

  void add_unit(const AttentionProblem& problem, const TileSource& source, int64_t sequence, int64_t kv_head);
  const std::vector<int32_t>& heavy_first(const TileSource& source, int32_t plane, int64_t m_blocks);
  void pack(const Task& task);
  void compute(const Task& task, ForwardScratch& scratch);
  bool wait(const std::atomic<int32_t>& counter, int32_t target) const;
  PartialRows partial(int64_t block, int64_t piece) const;

  std::vector<Unit> units_;
  std::vector<Task> tasks_;
  std::vector<int32_t> order_, holders_;
  std::vector<float> cost_;
  int32_t order_plane_ = -1;
  std::unique_ptr<Progress[]> progress_;                 // [units]
  std::unique_ptr<std::atomic<int32_t>[]> pieces_done_;  // [blocks], when split
  int64_t progress_size_ = 0, pieces_size_ = 0;
  Scratch packed_k_, packed_v_, partials_;

  // Of the call in progress.
  const AttentionProblem* problem_ = nullptr;
  const TileSource* source_ = nullptr;
  ForwardConfig config_;
  const ForwardKernels* kernels_ = nullptr;
  TileElements elements_;
  int64_t element_bytes_ = 4, ring_ = 1, ring_tiles_ = 0, max_packed_tiles_ = 0, packed_units_ = 0;
  char* k_ring_ = nullptr;
  char* v_ring_ = nullptr;
  float* partials_data_ = nullptr;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace anymask
