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

// Where a call runs: the caller's stream (null: the default one) and device memory. Neither means anything to a CPU.
struct Launch {
  void* stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
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
  // Whether it can run here at all.
  virtual Support available() const { return {}; }
  // Where it runs, where it can: "target", or "device 0" and so on.
  virtual std::vector<Fact> machine() const { return {}; }
  virtual Support supports(const AttentionProblem& problem, Direction direction) const = 0;
  // Device memory the caller must provide, in bytes (0 on a CPU).
  virtual size_t workspace_bytes(const AttentionProblem& problem, const Mask& mask, Direction direction) const = 0;
  virtual void forward(const AttentionProblem& problem, const Mask& mask, const Launch& launch) const = 0;
  virtual void backward(const AttentionProblem& problem, const Mask& mask, const Launch& launch) const = 0;
  virtual std::vector<Fact> explain(const AttentionProblem& problem, const Mask& mask, Direction direction) const = 0;
};

const Backend& cpu_backend();        // src/cpu
const Backend& reference_backend();  // src/reference: double precision, the specification
const Backend&
naive_backend();  // src/reference: the textbook computation in the tensors' own type, the yardstick of rounding errors
const Backend& cuda_backend();  // src/cuda; src/no_cuda in a build without it: supports() says what is missing

}  // namespace anymask
