// From a checked problem to what kernels receive.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "core/problem.h"
#include "cuda/attention_params.h"

namespace anymask {

// Everything but what lives in the workspace: sequences, plans, partial results, tickets. Each call has a launch number
// of its own.
AttentionParams make_params(const AttentionProblem& problem);

// Whether sequence i is batch entry i, all of one length: kernels then need no list of them.
bool uniform_sequences(const AttentionProblem& problem);
std::vector<CudaSequence> cuda_sequences(const AttentionProblem& problem);
// Device memory of the list, and what enqueues its upload; returns `to`, or null where there is none.
size_t sequence_count(const AttentionProblem& problem);
const CudaSequence* enqueue_sequences(const AttentionProblem& problem, CudaSequence* to, cudaStream_t stream);

}  // namespace anymask
