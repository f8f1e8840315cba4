// sm80_attention_bwd_small of one head-dim class: what each sm80_attention_bwd_small_*.cu instantiates, for both types.
#pragma once

#include <cuda_runtime.h>

#include "cuda/kernels/sm80_attention_bwd_small.cuh"
#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/sm80_attention_bwd_pass.h"

namespace anymask {

template <class T, int head_dim>
void launch_sm80_bwd_small(const Sm80BwdSmall& call) {
  using Tile = SmallBwdTile<T, head_dim>;
  constexpr size_t bytes = sizeof(typename Tile::Shared);
  static_assert(bytes <= 101376, "one tile serves every device");
  constexpr auto kernel = sm80_attention_bwd_small<Tile>;
  allow_shared_memory<kernel>(bytes, call.device, cudaSharedmemCarveoutMaxShared);
  const dim3 grid(static_cast<unsigned>(call.config.small_key_blocks + call.config.small_query_blocks),
                  static_cast<unsigned>(call.params.h_q), static_cast<unsigned>(call.params.num_sequences));
  check_cuda(launch_after<kernel>(grid, Tile::threads, bytes, call.device, call.stream, call.params,
                                  call.config.small_key_blocks, static_cast<int32_t>(call.config.aligned)),
             "launching sm80_attention_bwd_small");
}

}  // namespace anymask
