// Which of the kernels compiled for a shape a call takes: by its type, by whether its mask is a band, and by its
// scores.
#pragma once

#include "cuda/kernels/sm80_attention_fwd.cuh"

namespace anymask {

// Calls launch.operator()<T, Traits>().
template <int32_t index, class Launch>
void choose_sm80_attention_fwd_kernel(const AttentionParams& params, const Sm80ForwardConfig& config, Launch&& launch) {
  const auto of_type = [&]<class T>() {
    if (params.band.present != 0) {
      config.modified ? launch.template operator()<T, Sm80ForwardTraits<index, true, true>>()
                      : launch.template operator()<T, Sm80ForwardTraits<index, false, true>>();
    } else {
      config.modified ? launch.template operator()<T, Sm80ForwardTraits<index, true, false>>()
                      : launch.template operator()<T, Sm80ForwardTraits<index, false, false>>();
    }
  };
  config.dtype == DType::bf16 ? of_type.template operator()<__nv_bfloat16>() : of_type.template operator()<__half>();
}

}  // namespace anymask
