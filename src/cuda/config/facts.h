// What the configurations of several kernels ask of a problem. Pure host.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "core/error.h"
#include "core/problem.h"

namespace anymask {

// No, and why where that is asked for: writing it takes as long as the rest of a small call's choices.
template <class... Reason>
Support unsupported(bool with_reason, const Reason&... reason) {
  return {false, with_reason ? cat(reason...) : std::string()};
}

// Rows of 16-bit elements that 16-byte copies can move; a tensor that is not given needs none.
inline bool rows_aligned(const Tensor4& t) {
  return !t.defined() || (reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride_b % 8 == 0 && t.stride_s % 8 == 0 &&
                          t.stride_h % 8 == 0);
}

// Whether forward scores are more than products under a positive scale: kernels then compute them in natural units.
inline bool modifies_scores(const AttentionProblem& problem) {
  return problem.softcap != 0 || problem.bias.defined() || problem.alibi.defined() || !(problem.softmax_scale > 0);
}

// Whether long rows of tiles may be split for `blocks` blocks that run at once. Where every block has several rows, the
// longest-first order balances them; where keys are few, merging pieces costs a launch that splitting does not save.
inline bool may_split(const AttentionProblem& problem, int64_t items, int64_t blocks) {
  return items < 4 * blocks && problem.max_s_kv > 1024;
}

// Rows of tiles of all query heads, `fold` of which stand in one tile's rows.
inline int64_t count_items(const AttentionProblem& problem, int64_t tile_m, int64_t fold = 1) {
  const int64_t tokens = tile_m / fold;
  int64_t rows = 0;
  for (const Sequence& s : problem.sequences) rows += (s.s_q + tokens - 1) / tokens;
  return rows * (problem.h_q / fold);
}

// How many query heads of a group to fold into a tile's rows: the power of two up to `most` that leaves the fewest
// tiles, the smallest of them. More than one pays where queries are short: they fill tiles, and K and V are read once
// for all.
inline int32_t choose_fold(const AttentionProblem& problem, int64_t tile_m, int32_t most = 64) {
  int32_t best = 1;
  for (int32_t fold = 2; problem.group() % fold == 0 && tile_m % fold == 0 && fold <= most; fold *= 2) {
    if (count_items(problem, tile_m, fold) < count_items(problem, tile_m, best)) best = fold;
  }
  return best;
}

// The first of ascending shapes that holds both head dims; -1: none does.
template <class Shape, int32_t count>
int32_t first_shape(const Shape (&shapes)[count], int64_t d_qk, int64_t d_v) {
  for (int32_t i = 0; i < count; ++i) {
    if (d_qk <= shapes[i].d_qk && d_v <= shapes[i].d_v) return i;
  }
  return -1;
}

}  // namespace anymask
