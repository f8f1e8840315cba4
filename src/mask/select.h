// Selection: which keys a row of biases keeps, as the two integers of mask/kinds/topk.h. Exact, and the same on every
// machine: ties keep the lower key, NaN and -inf are never kept, -0 is 0.
//
// A row is encoded once and its threshold found by counting: the codes above a guess, which closes in by interpolation
// and bisection, 64 rounds at most. Where one row of biases serves all and the candidates of a row are those of the row
// before and more (causal), the window largest stay in a heap and each key enters it once.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "mask/kinds/topk.h"

namespace anymask {

class PlaneMask;

// One for each of s_q rows, or a single one where all are alike. `bias`: [rows, s_kv] of float32, float16 or bfloat16
// on the host, stride[0] = 0 where one row serves all. `among`: the candidates; null: all keys.
std::vector<TopkRow> select_rows(const TensorView& bias, int64_t s_q, int64_t window, const PlaneMask* among);

}  // namespace anymask
