// One pass of the portable backward, or all of a small call, ready to be launched by the file compiled for its head-dim
// class and type.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/attention_params.h"
#include "cuda/config/sm80_attention_bwd.h"
#include "cuda/launch/kernel.h"
#include "cuda/tile/backward_scratch.h"

namespace anymask {

struct Sm80BwdPass {
  const AttentionParams& params;
  const BackwardScratch& scratch;
  const CudaDevice& device;
  cudaStream_t stream;
  bool small_tiles;
  int64_t items;  // at most
};

// T: __nv_bfloat16 or __half; head_dim: 32, 64, 96, 128, 192 or 256.
template <class T, int head_dim>
void launch_sm80_bwd_dkdv(const Sm80BwdPass& pass);
template <class T, int head_dim>
void launch_sm80_bwd_dq(const Sm80BwdPass& pass);

struct Sm80BwdSmall {
  const AttentionParams& params;
  const Sm80AttentionBwdConfig& config;
  const CudaDevice& device;
  cudaStream_t stream;
};
// head_dim: 16, 32, 64 or 128.
template <class T, int head_dim>
void launch_sm80_bwd_small(const Sm80BwdSmall& call);

}  // namespace anymask
