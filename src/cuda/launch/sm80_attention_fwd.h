// Launches sm80_attention_fwd, and combine where rows were split. Enqueues only: no allocation, no synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/attention_params.h"
#include "cuda/config/sm80_attention_fwd.h"
#include "cuda/launch/kernel.h"

namespace anymask {

inline PlanShape plan_shape(const Sm80ForwardConfig& config) {
  return {.tile_m = config.shape.tile_m(), .transposed = false, .fold = config.fold, .parallelism = config.parallelism};
}

inline Sm80ForwardConfig choose_sm80_attention_fwd(const AttentionProblem& problem, bool groups_share_plane,
                                                   const CudaDevice& device) {
  return choose_sm80_attention_fwd(problem, groups_share_plane, device.num_sms, device.shared_bytes);
}

// `config` chosen for the problem `params` describes, on `device`, which is current. Split rows stay pieces until
// launch_combine.
void launch_sm80_attention_fwd(const AttentionParams& params, const Sm80ForwardConfig& config, const CudaDevice& device,
                               cudaStream_t stream);

}  // namespace anymask
