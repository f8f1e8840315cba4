// sm80_attention_fwd of one shape, launched on the emulator: in the place of
// launch/sm80_attention_fwd_instance.cuh, whose launches need CUDA's compiler.
// The launcher above it is the library's own.
#pragma once

#include "cuda/emulation/device_keywords.h"
// Keywords come first: kernels are written with them.
#include "cuda/emulation/launches.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // warnings that CUDA's compiler does not give
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "cuda/launch/sm80_attention_fwd_choice.cuh"
#pragma GCC diagnostic pop
#include "cuda/launch/sm80_attention_fwd.h"

namespace anymask {

extern unsigned char memory[emulation::sm80_shared_bytes];

template <class T, class Traits>
void run_sm80_attention_fwd(const AttentionParams& params, const Sm80ForwardConfig& config) {
  static_assert(sizeof(Sm80ForwardShared<Traits>) == Traits::shape.shared_bytes(2));
  const float unit = Traits::modified ? log2_e_f : params.softmax_scale * log2_e_f;
  const Sm80ForwardOptions options{config.stages, config.aligned, config.bias_pairs, unit, rescale_slack / unit};
  emulation::run({.grid = dim3(static_cast<unsigned>(config.grid)),
                  .threads = Traits::threads,
                  .shared = {memory, static_cast<size_t>(config.shared_bytes)},
                  .schedule = emulation::schedule},
                 [&] { sm80_attention_fwd<T, Traits>(params, options); });
}

template <int32_t index>
void launch_sm80_attention_fwd_shape(const AttentionParams& params, const Sm80ForwardConfig& config, const CudaDevice&,
                                     cudaStream_t) {
  choose_sm80_attention_fwd_kernel<index>(
      params, config, [&]<class T, class Traits>() { run_sm80_attention_fwd<T, Traits>(params, config); });
}

}  // namespace anymask
