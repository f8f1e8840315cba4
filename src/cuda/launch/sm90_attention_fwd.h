// Launches sm90_attention_fwd: tensor maps and one kernel. Enqueues only: no allocation, no synchronisation.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/attention_params.h"
#include "cuda/config/sm90_attention_fwd.h"
#include "cuda/launch/kernel.h"

namespace anymask {

inline PlanShape plan_shape(const Sm90ForwardConfig& config) {
  return {.tile_m = config.shape.tile_m(), .transposed = false, .fold = config.fold, .parallelism = config.parallelism};
}

// `config` chosen for the problem `params` describes, on `device`, which is current.
void launch_sm90_attention_fwd(const AttentionParams& params, const Sm90ForwardConfig& config, const CudaDevice& device,
                               cudaStream_t stream);

}  // namespace anymask
