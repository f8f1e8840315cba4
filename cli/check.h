// Results against the reference: the largest error of each output against a bound.
//
// The bound is twice the error of the textbook computation in the same type ("naive") against double precision, plus a
// small constant. NaN never passes. What is too big to compute in double as a whole is checked on sampled rows (out,
// lse, dq) and sampled keys (dk, dv); the choice of rows and keys depends on the lengths alone.
#pragma once

#include <string>
#include <vector>

#include "cli/call.h"

namespace anymask::cli {

struct TensorError {
  std::string name;
  double error = 0, naive_error = 0, bound = 0;
  double largest = 0;  // of the reference, in absolute value
  bool ok() const { return error <= bound; }
};

struct CheckReport {
  std::vector<TensorError> tensors;
  bool sampled = false;
  std::string scope;  // "every element", or what was sampled
  bool ok() const;
  const TensorError& worst() const;  // by error over bound
};

// `budget`: floating-point operations the reference may spend before rows are sampled. `results` hold what `call`
// computed.
CheckReport check_results(const Call& call, const Results& results, double budget = 2e9);

}  // namespace anymask::cli
