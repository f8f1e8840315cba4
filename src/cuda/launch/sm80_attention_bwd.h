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

// Enqueues the whole backward and nothing else. `transposed` and `forward` are make_params of the problem with the
// plans of config.dkdv_plan() and config.dq_plan(); `forward` is read with config.two_passes alone. `scratch` holds
// sm80_attention_bwd_scratch_bytes, aligned to 256; work counters are the launch's own.
void launch_sm80_attention_bwd(const AttentionParams& transposed, const AttentionParams& forward, void* scratch,
                               const Sm80AttentionBwdConfig& config, const CudaDevice& device, cudaStream_t stream);

}  // namespace anymask
