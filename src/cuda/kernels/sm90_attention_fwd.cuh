// sm90_attention_fwd: out = softmax(scale q k^T, masked) v and lse, on Hopper's own instructions.
//
// Grid      one persistent block an SM; items come from an atomic counter over the plan's longest-first list.
// Item      64 * kWarpgroups query rows of one head of one sequence (or of all heads of a group: fold), against the key
//           tiles of its runs, in ascending order.
// Warps     warpgroup 0: warp 0 loads Q, K, V and mask bits by TMA, warp 1 fetches items; one thread each.
//           The others: 64 rows each; S, P, O and the row statistics stay in registers.
// Stream    the tiles of all items form one stream; item borders are flags on its tiles. A warpgroup's turn at tile t:
//
//             S = Q K(t)^T  and, right behind it, O += P V(t-1)     tensor cores
//             m, l, S = exp2(S scale - m)                           meanwhile
//             t first of its item: O of the item before is written out
//             O = O alpha where a maximum rose, P = S in 16 bits
//
//           so that an item's first scores are computed under the last product of the item before. With kOverlap false
//           P V(t) follows in the same turn: three warpgroups then cover each other, and need fewer registers.
// Shared    Q, K and V rings as 64-wide blocks in the 128-byte swizzle, bits beside K; O leaves from registers.
// Masks     FULL: no mask registers live in that code. PARTIAL: one word a row and thread in fragment order. Key tiles
//           that end past s_kv: the word is computed. A warpgroup whose rows of a tile keep nothing skips both
//           products.
// Fold      row r of a tile is token r >> fold_log2 of head q_head + r % 2^fold_log2; the plan's bits are laid out so.
#pragma once

#include "cuda/attention_params.h"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/threads.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/sm90_epilogue.cuh"
#include "cuda/tile/sm90_load.cuh"
#include "cuda/tile/sm90_scores.cuh"
#include "cuda/tile/sm90_shared.cuh"
#include "cuda/tile/sm90_softmax.cuh"

namespace anymask::sm90 {

template <class S>
struct Consumer {
  using T = typename S::T;
  Shared<S>& smem;
  const AttentionParams& params;
  const int fold_log2, warpgroup, row, lane;  // row of the warpgroup's 64, and row + 8, are this thread's
  const float scale_log2;

  RowState<S::kN> state;
  float o[S::kDv / 2];
  uint32_t p[S::kN / 4];
  Ring<S::kStages> ring;
  Ring<S::kQSlots> q_ring;
  bool pending = false;  // P of the tile before waits for its product with V

  __device__ __forceinline__ void release(uint64_t& barrier) {
    if (lane == 0) ptx::mbarrier_arrive(barrier);
  }
  __device__ __forceinline__ Ring<S::kStages> before() const {
    return {ring.stage == 0 ? S::kStages - 1 : ring.stage - 1, ring.stage == 0 ? ring.phase ^ 1 : ring.phase};
  }

  // O += P V
  __device__ __forceinline__ void issue_pv(int stage) {
    const uint64_t v = ptx::descriptor(ptx::shared_address(smem.v[stage]), S::kN * 128, 1024);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < S::kN / 16; ++k) {
      ptx::Wgmma<T, S::kDv>::template rs<1>(o, reinterpret_cast<const uint32_t(&)[4]>(p[4 * k]), v + k * (2048 / 16),
                                            true);
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void multiply_pending(const Ring<S::kStages>& at) {
    ptx::mbarrier_wait(smem.v_full[at.stage], at.phase);
    issue_pv(at.stage);
    ptx::wgmma_wait<0>();
    ptx::wgmma_settle(o);
    release(smem.v_empty[at.stage]);
  }

  // S = Q K^T, under it O += P V of the tile before (kPending), and the softmax of S. Returns as RowState::softmax.
  template <bool kMasked, bool kPending>
  __device__ __forceinline__ bool scores(float (&s)[S::kN / 2], const TileInfo& tile, Slice kind, float (&alpha)[2]) {
    const int stage = ring.stage;
    const uint64_t q = ptx::descriptor(ptx::shared_address(smem.q[q_ring.stage]) + warpgroup * 64 * 128, 16, 1024);
    const uint64_t k = ptx::descriptor(ptx::shared_address(smem.k[stage]), 16, 1024);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < S::kD / 16; ++i) {
      const uint64_t q_step = i % 4 * 2 + i / 4 * (S::kTileM * 128 / 16),
                     k_step = i % 4 * 2 + i / 4 * (S::kN * 128 / 16);
      ptx::Wgmma<T, S::kN>::template ss<0, 0>(s, q + q_step, k + k_step, i != 0);
    }
    ptx::wgmma_commit();
    const Ring<S::kStages> last = before();
    if constexpr (kPending) {
      ptx::mbarrier_wait(smem.v_full[last.stage], last.phase);
      issue_pv(last.stage);
      ptx::wgmma_wait<1>();
    } else {
      ptx::wgmma_wait<0>();
    }
    ptx::wgmma_settle(s);
    uint32_t keep[2] = {0xffffffffu, 0xffffffffu};
    if constexpr (kMasked) {
      const int quarter = lane % 4;
      if (kind == Slice::bits) {
        const uint32_t* const unit = smem.bits[stage] + warpgroup * 256 + row * 4 + quarter;
        const int half = S::kN < kPlanN && (tile.key_begin & S::kN) != 0 ? 16 : 0;
        keep[0] = unit[0] >> half;
        keep[1] = unit[32] >> half;
      } else if (kind == Slice::limit) {
        keep[0] = keep[1] = word_below<S::kN>(tile.limit, quarter);
      }
      __syncwarp();
    }
    release(smem.k_empty[stage]);
    if ((tile.flags & (kEnd | kHasQ)) == (kEnd | kHasQ)) release(smem.q_empty[q_ring.stage]);
    if constexpr (S::kModified) {
      modify_scores<S::kN>(s, params, smem.item[tile.flags >> kSlotShift], tile, warpgroup * 64 + row, lane % 4,
                           fold_log2);
    }
    const bool moved = state.template softmax<kMasked>(s, keep, scale_log2, alpha);
    if constexpr (kPending) {
      ptx::wgmma_wait<0>();
      ptx::wgmma_settle(o);
      ptx::wgmma_settle(s);  // P's registers are free from here on
      release(smem.v_empty[last.stage]);
    }
    return moved;
  }

  // The item in `slot` is whole in m and l: lse is written, l gives way to 1 / l.
  __device__ __forceinline__ void finish(int slot) {
    float inverse[2];
    write_lse<S>(state.reference, state.sum, inverse, params, smem.item[slot], warpgroup * 64 + row, lane % 4,
                 fold_log2);
    state.sum[0] = inverse[0];
    state.sum[1] = inverse[1];
  }
  __device__ __forceinline__ void write(int slot, const float (&inverse)[2]) {
    write_out<S>(o, inverse, params, smem.item[slot], warpgroup * 64 + row, lane % 4, fold_log2);
    __syncwarp();
    release(smem.item_empty[slot]);
  }

  __device__ __forceinline__ void run() {
    int open = -1;  // the slot of the item whose O is here and not yet written
    for (;;) {
      ptx::mbarrier_wait(smem.k_full[ring.stage], ring.phase);
      TileInfo tile = smem.tile[ring.stage];
      tile.flags = ptx::uniform(tile.flags);
      const auto kind = static_cast<Slice>(ptx::uniform(tile.kinds >> (2 * warpgroup) & 3));
      const bool first = tile.flags & kFirst;
      const float inverse[2] = {state.sum[0], state.sum[1]};  // of the item before, where this tile is a first one
      if (first) {
        state.start();
        if (tile.flags & kHasQ) ptx::mbarrier_wait(smem.q_full[q_ring.stage], q_ring.phase);
      }

      float s[S::kN / 2], alpha[2] = {1, 1};
      bool moved = false;
      constexpr bool kPlainTiles = !S::kModified;
      if (kind == Slice::empty) {
        release(smem.k_empty[ring.stage]);
        if ((tile.flags & (kEnd | kHasQ)) == (kEnd | kHasQ)) release(smem.q_empty[q_ring.stage]);
        if (pending) multiply_pending(before());
        if ((tile.flags & kStop) == 0) {
          ptx::mbarrier_wait(smem.v_full[ring.stage], ring.phase);
          release(smem.v_empty[ring.stage]);
        }
      } else if (kPlainTiles && kind == Slice::full && pending == S::kOverlap) {
        moved = scores<false, S::kOverlap>(s, tile, kind, alpha);
      } else if (S::kOverlap && pending) {
        moved = scores<true, S::kOverlap>(s, tile, kind, alpha);
      } else {
        moved = scores<true, false>(s, tile, kind, alpha);
      }

      if (first) {
        if constexpr (S::kOverlap) {
          if (open >= 0) write(open, inverse);
        }
        open = static_cast<int>(tile.flags >> kSlotShift);
#pragma unroll
        for (float& x : o) x = 0;
      } else if (moved) {
#pragma unroll
        for (int i = 0; i < S::kDv / 2; ++i) o[i] *= alpha[i / 2 % 2];
      }
      if (tile.flags & kStop) break;
      if (tile.flags & kEnd) finish(open);
      pending = kind != Slice::empty;
      if (pending) {
#pragma unroll
        for (int i = 0; i < S::kN / 4; ++i) p[i] = ptx::pack<T>(s[2 * i], s[2 * i + 1]);
      }
      if constexpr (!S::kOverlap) {
        if (pending) multiply_pending(ring);
        pending = false;
        if (tile.flags & kEnd) write(open, state.sum);
      }
      if ((tile.flags & (kEnd | kHasQ)) == (kEnd | kHasQ)) q_ring.advance();
      ring.advance();
    }
  }
};

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    sm90_attention_fwd(const __grid_constant__ Maps maps, const __grid_constant__ AttentionParams params,
                       const int fold_log2) {
  extern __shared__ __align__(1024) uint8_t shared_bytes[];
  Shared<S>& smem = *reinterpret_cast<Shared<S>*>(shared_bytes);
  const int warpgroup = ptx::uniform(threadIdx.x / 128), warp = ptx::uniform(threadIdx.x / 32 % 4);
  const int lane = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    for (int i = 0; i < kItemSlots; ++i) {
      ptx::mbarrier_init(smem.item_full[i], 1);
      ptx::mbarrier_init(smem.item_empty[i], S::kConsumerWarps + 1);
    }
    ptx::mbarrier_init(smem.item_wanted, 1);
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
  __syncthreads();

  if (warpgroup == 0) {
    ptx::registers_decrease<S::kLoaderRegisters>();
    if (warp == 0 && lane == 0) {
      load_tiles(smem, maps, params);
    } else if (warp == 1 && lane == 0) {
      fetch_items(smem, params, fold_log2);
    }
  } else {
    ptx::registers_increase<S::kConsumerRegisters>();
    const float scale_log2 = S::kModified ? kLog2e : params.softmax_scale * kLog2e;
    Consumer<S> consumer{smem, params, fold_log2, warpgroup - 1, warp * 16 + lane / 4, lane, scale_log2};
    consumer.run();
  }
}

}  // namespace anymask::sm90
