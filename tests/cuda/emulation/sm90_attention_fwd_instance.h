// sm90_attention_fwd in one type, launched on the emulator: in the place of launch/sm90_attention_fwd_instance.cuh,
// whose launches need CUDA's compiler. The launcher above it is the library's own.
#pragma once

#include "cuda/emulation/device_keywords.h"
// Keywords come first: kernels are written with them.
#include "cuda/emulation/launches.h"
#include "cuda/kernels/combine.cuh"
#include "cuda/kernels/sm90_attention_fwd.cuh"
#include "cuda/launch/sm90_attention_fwd.h"

namespace anymask {

namespace sm90 {
extern uint8_t shared_bytes[emulation::sm90_shared_bytes];
}

template <class T, Sm90ForwardShape s, bool modified>
void run_sm90_attention_fwd(const sm90::Maps& maps, const AttentionParams& params, const Sm90ForwardConfig& config) {
  using S = sm90::Shape<T, s.d_qk, s.d_v, s.warpgroups, s.keys, s.stages, s.q_slots, modified>;
  static_assert(sizeof(sm90::Shared<S>) <= emulation::sm90_shared_bytes);
  emulation::run({.grid = dim3(static_cast<unsigned>(config.grid)),
                  .threads = S::kThreads,
                  .shared = {sm90::shared_bytes, sizeof(sm90::Shared<S>)},
                  .schedule = emulation::schedule},
                 [&] { sm90::sm90_attention_fwd<S>(maps, params); });
}

template <class T, int32_t index>
void launch_sm90_attention_fwd_shape(const sm90::Maps& maps, const AttentionParams& params,
                                     const Sm90ForwardConfig& config, const CudaDevice&, cudaStream_t) {
  if constexpr (!sm90_forward_shapes[index].long_rows) {
    if (config.modified) return run_sm90_attention_fwd<T, sm90_forward_shape(index, true), true>(maps, params, config);
  }
  run_sm90_attention_fwd<T, sm90_forward_shape(index, false), false>(maps, params, config);
}

namespace emulation {

template <class T>
void run_combine(const AttentionParams& params) {
  run({.grid = dim3(2, 2), .threads = 32 * combine_warps, .schedule = schedule}, [&] { combine<T>(params); });
}

}  // namespace emulation
}  // namespace anymask
