// One compiled shape of sm80_attention_fwd, both types, plain and modified scores: what each sm80_attention_fwd_*.cu
// instantiates, and how it is launched.
#pragma once

#include <cuda_runtime.h>

#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/sm80_attention_fwd.h"
#include "cuda/launch/sm80_attention_fwd_choice.cuh"

namespace anymask {

template <class T, class Traits>
void launch_sm80_attention_fwd_kernel(const AttentionParams& params, const Sm80ForwardConfig& config,
                                      const CudaDevice& device, cudaStream_t stream) {
  constexpr Sm80ForwardShape shape = Traits::shape;
  static_assert(sizeof(Sm80ForwardShared<Traits>) == shape.shared_bytes(2));
  const int32_t most = shape.shared_bytes(shape.shared_bytes(2) <= device.shared_bytes ? 2 : 1);
  allow_shared_memory<sm80_attention_fwd<T, Traits>>(static_cast<size_t>(most), device, cudaSharedmemCarveoutMaxShared);
  // Plain scores stay raw products, and the unit carries scale * log2(e); modified ones are natural.
  const float unit = Traits::modified ? log2_e_f : params.softmax_scale * log2_e_f;
  const Sm80ForwardOptions options{config.stages, config.aligned, config.bias_pairs, unit, rescale_slack / unit};
  static_assert(sizeof params + sizeof options <= 4096, "what every driver takes as parameters");
  const auto grid = static_cast<unsigned>(config.grid);
  // Who calls this asks for the error.
  static_cast<void>(launch_after<sm80_attention_fwd<T, Traits>>(
      grid, Traits::threads, static_cast<size_t>(config.shared_bytes), device, stream, params, options));
}

template <int32_t index>
void launch_sm80_attention_fwd_shape(const AttentionParams& params, const Sm80ForwardConfig& config,
                                     const CudaDevice& device, cudaStream_t stream) {
  choose_sm80_attention_fwd_kernel<index>(params, config, [&]<class T, class Traits>() {
    launch_sm80_attention_fwd_kernel<T, Traits>(params, config, device, stream);
  });
}

}  // namespace anymask
