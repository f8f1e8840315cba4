// Whether a call is computed over gathered keys, and how its rows share lists of them.
//
// Where all rows choose among the same keys a sequence has one list, as long as the window. Where the candidates of
// rows are a band, as in topk(bias, w, among=causal), blocks of rows have lists of their own: what some row of the
// block keeps is among the w largest of the candidates that all of them share, or among those that only some of them
// have. Where candidates only come and never go, a key is kept by a stretch of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "core/problem.h"
#include "mask/bound_mask.h"

namespace anymask {

struct GatherBlock {
  int64_t first, rows;  // of the sequence
  int64_t width;        // places of its list
};

struct GatherLayout {
  // Not: no way, or, where the mask has a selection that could be gathered, why not.
  Support support{false, ""};
  bool by_rows = false;     // rows choose for themselves
  bool by_columns = false;  // and what they keep of a key is a stretch of them, found for the whole list
  std::vector<std::vector<GatherBlock>> blocks;  // of each sequence
};

GatherLayout gather_layout(const AttentionProblem& problem, const BoundMask& mask);

// Heads that a bias, and the planes of a mask, tell apart: 1, h_kv or h_q.
int64_t heads_apart(const BoundMask& mask, const AttentionProblem& problem);

}  // namespace anymask
