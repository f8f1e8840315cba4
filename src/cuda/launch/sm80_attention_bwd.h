// The portable backward: its workspace beyond the plans, and its launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "core/problem.h"
#include "cuda/attention_params.h"
#include "cuda/config/sm80_attention_bwd.h"
#include "cuda/launch/kernel.h"

namespace anymask {

// Facts of the rows, fp32 sums of dQ, dK and dV, what dsinks and dbias are summed in, item counters.
size_t sm80_attention_bwd_scratch_bytes(const AttentionProblem& problem, const Sm80AttentionBwdConfig& config);

// make_params of the problem with the plan or the band of config.dkdv_plan() and of config.dq_plan(), and how many
// items these have at most. The second ones are read with config.two_passes alone.
struct Sm80BwdCall {
  AttentionParams dkdv, dq;
  int64_t dkdv_items, dq_items;
};

// Enqueues the whole backward and nothing else. `scratch` holds sm80_attention_bwd_scratch_bytes, aligned to 256; work
// counters are the launch's own.
void launch_sm80_attention_bwd(const Sm80BwdCall& call, void* scratch, const Sm80AttentionBwdConfig& config,
                               const CudaDevice& device, cudaStream_t stream);

// The whole backward of a call with config.small_head_dim, in one launch: make_params of the problem with the band of
// config.small_plan().
void launch_sm80_attention_bwd_small(const AttentionParams& params, const Sm80AttentionBwdConfig& config,
                                     const CudaDevice& device, cudaStream_t stream);

}  // namespace anymask
