// What a backend is: a name, what it supports, and three functions. Dispatch picks one, or says why none will do.
#pragma once

#include <string>
#include <vector>

#include "core/problem.h"
#include "mask/mask.h"

namespace anymask {

enum class Direction : uint8_t { forward, backward };

struct Support {
  bool yes = true;
  std::string reason;  // when no: what is missing and the way out
};

// One line of `explain`: a name and what was decided or measured, in plain values.
struct Fact {
  std::string name, value;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual Device device() const = 0;
  virtual Support supports(const AttentionProblem& problem, Direction direction) const = 0;
  // Device memory the caller must provide, in bytes (0 on a CPU).
  virtual size_t workspace_bytes(const AttentionProblem& problem, Direction direction) const = 0;
  virtual void forward(const AttentionProblem& problem, const Mask& mask) const = 0;
  virtual void backward(const AttentionProblem& problem, const Mask& mask) const = 0;
  virtual std::vector<Fact> explain(const AttentionProblem& problem, const Mask& mask, Direction direction) const = 0;
};

const Backend& cpu_backend();        // src/cpu
const Backend& reference_backend();  // src/reference: double precision, the specification
const Backend&
naive_backend();  // src/reference: the textbook computation in the tensors' own type, the yardstick of rounding errors
const Backend& cuda_backend();  // src/no_cuda, until src/cuda: supports() says what is missing

}  // namespace anymask
