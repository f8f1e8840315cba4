// From a checked problem to what kernels receive.
#pragma once

#include <cuda_runtime_api.h>

#include "core/problem.h"
#include "cuda/attention_params.h"

namespace anymask {

// Everything but what lives in the workspace: sequences, plans, partial results, counters.
AttentionParams make_params(const AttentionProblem& problem);

// Enqueues a copy of the call's lengths, one for each sequence in their order; returns `to`.
const CudaSequence* enqueue_sequences(const AttentionProblem& problem, CudaSequence* to, cudaStream_t stream);

}  // namespace anymask
