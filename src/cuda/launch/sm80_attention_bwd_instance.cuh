// The two passes of one head-dim class and type. Each pair is instantiated in a file of its own: one such file compiles
// in well under a minute.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/config/sm80_attention_bwd.h"
#include "cuda/kernels/sm80_attention_bwd_dkdv.cuh"
#include "cuda/kernels/sm80_attention_bwd_dq.cuh"
#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/sm80_attention_bwd_pass.h"

namespace anymask {

// As many blocks as shared memory holds at once, or as there are items; they take items until none is left.
template <class Tile, auto kernel>
void launch_persistent(const Sm80BwdPass& pass) {
  constexpr size_t bytes = sizeof(typename Tile::Shared);
  allow_shared_memory<kernel>(bytes, pass.device);
  const size_t fit = static_cast<size_t>(pass.device.shared_bytes) / (bytes + 1024);
  const int64_t blocks = int64_t{pass.device.num_sms} * std::max(1, static_cast<int>(fit));
  check_cuda(launch_after<kernel>(dim3(static_cast<unsigned>(std::clamp<int64_t>(pass.items, 1, blocks))),
                                  Tile::threads, bytes, pass.device, pass.stream, pass.params, pass.scratch),
             "launching sm80_attention_bwd");
}

template <class T, int head_dim>
void launch_sm80_bwd_dkdv(const Sm80BwdPass& pass) {
  constexpr Sm80BwdTiles wide = sm80_bwd_tiles(head_dim, false), small = sm80_bwd_tiles(head_dim, true);
  constexpr bool one = wide.queries == small.queries && wide.keys == small.keys;
  using Wide = DkdvTile<T, head_dim, wide.keys / 64, wide.queries, wide.stages, false>;
  using Small = DkdvTile<T, head_dim, small.keys / 64, small.queries, small.stages, !one>;
  static_assert(sizeof(typename Wide::Shared) <= 166912 && sizeof(typename Small::Shared) <= 101376);
  if (pass.small_tiles) {
    launch_persistent<Small, sm80_attention_bwd_dkdv<Small>>(pass);
  } else {
    launch_persistent<Wide, sm80_attention_bwd_dkdv<Wide>>(pass);
  }
}

template <class T, int head_dim>
void launch_sm80_bwd_dq(const Sm80BwdPass& pass) {
  constexpr Sm80BwdTiles tiles = sm80_bwd_tiles(head_dim, false);
  using Tile = DqTile<T, head_dim, tiles.dq_rows / 16, tiles.dq_keys>;
  static_assert(sizeof(typename Tile::Shared) <= 101376, "one tile serves every device");
  launch_persistent<Tile, sm80_attention_bwd_dq<Tile>>(pass);
}

}  // namespace anymask
