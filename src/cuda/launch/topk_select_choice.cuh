// Which of the kernels compiled for a type a configuration means.
#pragma once

#include "cuda/kernels/topk_select.cuh"
#include "cuda/launch/topk_select.h"

namespace anymask::topk {

template <int chunks_, int warps_, bool cluster_, bool streamed_>
struct Shape {
  static constexpr int chunks = chunks_, warps = warps_;
  static constexpr bool cluster = cluster_, streamed = streamed_;
};

// Calls launch.operator()<Keys, Shape>().
template <class Keys, class Launch>
void choose_kernel(const TopkSelectConfig& config, Launch&& launch) {
  if (config.segments > 1) return launch.template operator()<Keys, Shape<16, 16, false, true>>();
  if (config.cluster > 1) return launch.template operator()<Keys, Shape<16, 16, true, false>>();
  if (config.chunks == 4) return launch.template operator()<Keys, Shape<4, 1, false, false>>();
  switch (config.warps) {
    case 1:
      return launch.template operator()<Keys, Shape<16, 1, false, false>>();
    case 2:
      return launch.template operator()<Keys, Shape<16, 2, false, false>>();
    case 4:
      return launch.template operator()<Keys, Shape<16, 4, false, false>>();
    case 8:
      return launch.template operator()<Keys, Shape<16, 8, false, false>>();
    default:
      return launch.template operator()<Keys, Shape<16, 16, false, false>>();
  }
}

}  // namespace anymask::topk
