// The units scores are computed in, one choice for both directions: where forward and backward round a score alike, the
// gradient of a row sums to zero over its keys as it should, and what keys have in common cancels. (With outliers in K,
// as real models have them, scores rounded in two ways cost dq four times the error.)
//
//   score = cap * tanh(factor * q.k) + unit * bias - unit * slope * |p - kv|, or factor * q.k without a softcap
//
// Powers of two (unit = log2(e)): what exp2 takes. With a bias natural units: masks are often biases of -FLT_MAX, which
// times log2(e) would be -inf.
#pragma once

#include <cmath>

#include "core/problem.h"
#include "cpu/config.h"

namespace anymask {

struct ScoreUnits {
  explicit ScoreUnits(const AttentionProblem& problem)
      : natural(problem.bias.defined()),
        log_unit(natural ? 1.0 : log2_e),
        factor(static_cast<float>(problem.softcap > 0 ? problem.softmax_scale / problem.softcap
                                                      : problem.softmax_scale * log_unit)),
        cap(problem.softcap > 0 ? static_cast<float>(problem.softcap * log_unit) : 0.f) {}

  // e to the power of a difference of scores.
  float exp(float x) const { return std::exp2(natural ? x * static_cast<float>(log2_e) : x); }

  bool natural;
  double log_unit;  // a natural logarithm of 1, in these units
  float factor;     // folded into the packed queries, or applied to raw sums of bf16 products
  float cap;        // 0: no softcap
};

}  // namespace anymask
