// From a checked problem to what kernels receive.
#pragma once

#include <vector>

#include "core/problem.h"
#include "cuda/attention_params.h"

namespace anymask {

// Everything but what lives in the workspace: sequences, plans, partial results, counters.
AttentionParams make_params(const AttentionProblem& problem);

// One for each sequence, in their order.
std::vector<CudaSequence> make_sequences(const AttentionProblem& problem);

}  // namespace anymask
