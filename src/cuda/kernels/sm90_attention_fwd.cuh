// sm90_attention_fwd: out = softmax(scale q k^T, masked) v and lse, on Hopper's own instructions.
//
// Grid      one persistent block an SM; items come by tickets, longest first, from a plan or a band
//           (tile/item_source.cuh).
// Item      64 * kWarpgroups query rows of one head of one sequence (or of all heads of a group: fold), against the key
//           tiles of its runs, in ascending order.
// Warps     warpgroup 0: one thread of warp 0 loads Q, K, V and mask bits by TMA, warp 1 fetches items, and of a band
//           warps 1 and 2 compute what their rows keep. Warp 3 opens the arrivals of pieces.
//           The others: 64 rows each; S, P, O and the row statistics stay in registers.
// Stream    the tiles of all items form one stream; item borders are flags on its tiles. A warpgroup's turn at tile t,
//           when there are two (tile/sm90_overlapped.cuh):
//
//             S = Q K(t)^T  and, right behind it, O += P V(t-1)     tensor cores
//             P' = exp2(S scale - m), l                             meanwhile; m moves where P outgrows its limit
//             t first of its item: O of the item before is written out
//             O = O alpha where m moved, P = P'
//
//           so that an item's first scores are computed under the last product of the item before. Three warpgroups do
//           the same one after the other (tile/sm90_turns.cuh): each multiplies while two take their softmax. Where
//           registers do not suffice for that (tile/sm90_plain.cuh), S alone is in turn, and P V(t) follows its P.
// Shared    Q, K and V rings as 64-wide blocks in the 128-byte swizzle, bits beside K; O leaves from registers.
// Masks     FULL: no mask registers live in that code. PARTIAL: one word a row and thread in fragment order; of a band,
//           and where key tiles end past s_kv, it is computed. A warpgroup whose rows of a tile keep nothing skips both
//           products.
// Pieces    of a row that is cut leave in fp32; the last of them to come merges them (tile/merge_pieces.cuh).
// Fold      rows are tokens of several query heads, as the plan says (cuda/fold.h).
#pragma once

#include <type_traits>

#include "cuda/attention_params.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/threads.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/tile/sm90_load.cuh"
#include "cuda/tile/sm90_overlapped.cuh"
#include "cuda/tile/sm90_plain.cuh"
#include "cuda/tile/sm90_shared.cuh"

namespace anymask::sm90 {

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    sm90_attention_fwd(const __grid_constant__ Maps maps, const __grid_constant__ AttentionParams params) {
  extern __shared__ __align__(1024) uint8_t shared_bytes[];
  Shared<S>& smem = *reinterpret_cast<Shared<S>*>(shared_bytes);
  const int warpgroup = ptx::uniform(threadIdx.x / 128), warp = ptx::uniform(threadIdx.x / 32 % 4);
  const int lane = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    ptx::prefetch_map(maps.q);
    ptx::prefetch_map(maps.k);
    ptx::prefetch_map(maps.v);
    for (int i = 0; i < kItemSlots; ++i) {
      ptx::mbarrier_init(smem.item_full[i], has_band<S>(params) ? S::kWarpgroups : 1);
      ptx::mbarrier_init(smem.item_empty[i], S::kConsumerWarps + 1);
    }
    ptx::mbarrier_init(smem.item_wanted, 1);
    ptx::mbarrier_init(smem.arrivals_open, 1);
    for (int i = 0; i < S::kQSlots; ++i) {
      ptx::mbarrier_init(smem.q_full[i], 1);
      ptx::mbarrier_init(smem.q_empty[i], S::kConsumerWarps);
    }
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(smem.k_full[i], 1);
      ptx::mbarrier_init(smem.v_full[i], 1);
      ptx::mbarrier_init(smem.k_empty[i], S::kConsumerWarps);
      ptx::mbarrier_init(smem.v_empty[i], S::kConsumerWarps);
    }
    ptx::mbarrier_init_fence();
  }
  ptx::wait_for_previous();
  __syncthreads();

  if (warpgroup == 0) {
    ptx::registers_decrease<S::kLoaderRegisters>();
    if (warp == 0 && lane == 0) {
      load_tiles(smem, maps, params);
    } else if (warp == 1 || (has_band<S>(params) && warp > 0 && warp <= S::kWarpgroups)) {
      fetch_items(smem, params);
    } else if (warp == 3 && params.partial_out != nullptr) {
      open_arrivals(params, S::kWarpgroups, lane);
      if (lane == 0) ptx::mbarrier_arrive(smem.arrivals_open);
    }
  } else {
    ptx::registers_increase<S::kConsumerRegisters>();
    using Consumer = std::conditional_t<S::kOverlap, OverlappedConsumer<S>, PlainConsumer<S>>;
    Consumer consumer{{smem, params, warpgroup - 1}};
    consumer.run();
  }
}

}  // namespace anymask::sm90
