// Where the gradient of a bias goes: four patterns, by what the bias is broadcast over.
//
//   rows have their own bias, one (head, batch entry) per element    each dS is stored
//   rows have their own bias, shared by heads or batch entries       added up in fp32: in dbias itself, or in a copy if
//   it is 16 bits wide one bias for all rows                                            a task sums its columns; the
//   tasks' sums are added in a fixed order
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "cpu/backward_schedule.h"
#include "cpu/backward_tile.h"
#include "cpu/scratch.h"

namespace anymask::backward {

class BiasGradients {
 public:
  // No gradient wanted: problem.dbias undefined.
  BiasGradients(const AttentionProblem& problem, const Schedule& schedule);

  BiasGradient kind() const { return kind_; }
  // Whether tasks of different heads add to the same elements, so that a task has to wait for its turn.
  bool ordered() const { return ordered_; }
  // Whether `earlier` adds to elements that `head` adds to.
  bool shares(const Head& earlier, const Head& head) const {
    return (shape_b_ == 1 || earlier.sequence == head.sequence) && (shape_h_ == 1 || earlier.kv_head == head.kv_head);
  }

  // Pieces of work before the tasks (zeros) and after them (sums, narrowing); each piece may run on any thread.
  int64_t pieces_before() const;
  void before(int64_t piece) const;
  int64_t pieces_after() const;
  void after(int64_t piece) const;

  // Rows of column sums a task keeps: one, or one for each q head of the group.
  int64_t sums() const { return kind_ == BiasGradient::columns ? sums_ : 0; }
  // Row of sums that q head `g` of the group adds to.
  int64_t sum_of(int64_t g) const { return sums_ == 1 ? 0 : g; }
  // Row `sum` of the task's column sums.
  void keep_sums(const Task& task, int64_t sum, int64_t key_begin, int64_t keys, const float* from) const;

  // The gradient of a tile: rows from `row`, keys from `key` of q head h.
  BiasGradientTile tile(int64_t sequence, int64_t h, int64_t row, int64_t key) const;

 private:
  float* sums_at(int32_t head, int64_t sum) const;
  // Element offsets of row i of the flat [b, h, s_q] rows of dbias.
  int64_t row_offset(int64_t i) const;

  const AttentionProblem& problem_;
  const Schedule& schedule_;
  BiasGradient kind_ = BiasGradient::none;
  bool ordered_ = false;
  int64_t shape_b_ = 0, shape_h_ = 0, shape_q_ = 0, shape_kv_ = 0;
  int64_t sums_ = 1;
  float* data_ = nullptr;           // add: [b, h, s_q, s_kv] fp32 copy, or null: dbias itself
  std::vector<int64_t> first_sum_;  // columns: by head order, into partial_
  float* partial_ = nullptr;
  Scratch memory_;
};

}  // namespace anymask::backward
