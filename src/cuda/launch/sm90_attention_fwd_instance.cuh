// One compiled shape of sm90_attention_fwd in one type, plain and modified scores: what each sm90_attention_fwd_*.cu
// instantiates, and how it is launched.
#pragma once

#include <cuda_runtime.h>

#include "cuda/kernels/sm90_attention_fwd.cuh"
#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/sm90_attention_fwd.h"

namespace anymask {

template <class S>
void launch_sm90_attention_fwd_kernel(const sm90::Maps& maps, const AttentionParams& params,
                                      const Sm90ForwardConfig& config, const CudaDevice& device, cudaStream_t stream) {
  constexpr int bytes = sizeof(sm90::Shared<S>);
  static_assert(bytes <= 232448, "a block of Hopper");
  allow_shared_memory<sm90::sm90_attention_fwd<S>>(bytes, device);
  static_assert(sizeof maps + sizeof params <= 4096, "what every driver takes as parameters");
  // Who calls this asks for the error.
  static_cast<void>(launch_after<sm90::sm90_attention_fwd<S>>(static_cast<unsigned>(config.grid), S::kThreads, bytes,
                                                              device, stream, maps, params));
}

template <class T, Sm90ForwardShape s, bool modified>
using Sm90Kernel = sm90::Shape<T, s.d_qk, s.d_v, s.warpgroups, s.keys, s.stages, s.q_slots, modified>;

template <class T, int32_t index>
void launch_sm90_attention_fwd_shape(const sm90::Maps& maps, const AttentionParams& params,
                                     const Sm90ForwardConfig& config, const CudaDevice& device, cudaStream_t stream) {
  using Plain = Sm90Kernel<T, sm90_forward_shape(index, false), false>;
  if constexpr (!sm90_forward_shapes[index].long_rows) {
    using Modified = Sm90Kernel<T, sm90_forward_shape(index, true), true>;
    if (config.modified) return launch_sm90_attention_fwd_kernel<Modified>(maps, params, config, device, stream);
  }
  launch_sm90_attention_fwd_kernel<Plain>(maps, params, config, device, stream);
}

}  // namespace anymask
