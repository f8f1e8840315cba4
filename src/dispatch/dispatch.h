// Which backend computes a call, or why none does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace anymask {

struct Refusal {
  const char* backend;
  std::string reason;
};

struct Choice {
  const Backend* backend = nullptr;  // null: nothing will do, and `refused` says why
  std::vector<Refusal> refused;      // what was asked before, and its answer
};

// Every backend, in the order they are listed to users.
std::span<const Backend* const> all_backends();

// The backend of that name; null for "auto" (and ""). An unknown name is an error that suggests the nearest one.
const Backend* named_backend(const char* operation, std::string_view name);

// `named` null: the backend made for the tensors' device; it never falls back to the reference, which would be correct
// and a thousand times slower than what was meant. A named backend is taken as asked for, or refuses. Costs nothing but
// the question when the first answer is yes.
Choice choose_backend(const AttentionProblem& problem, const Backend* named, Direction direction);

// Every backend that would not compute this call, and why.
std::vector<Refusal> refusals(const AttentionProblem& problem, Direction direction);

// choose_backend as an error: throws `unsupported` with what each backend said.
const Backend& require_backend(const char* operation, const AttentionProblem& problem, const Backend* named,
                               Direction direction);

}  // namespace anymask
