// The two threads that feed the consumers: one fetches items from the work list, one loads Q, K, V and mask bits.
//
// K runs a tile ahead of V, as the consumers do: S of a tile is issued before P V of the tile before it. All loads
// are in one thread, in the order in which their memory becomes free.
#pragma once

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/tile/sm90_shared.cuh"

namespace anymask::sm90 {

// Items, one ahead of the loader: the next is taken from the counter only when the last tile of the present one is
// about to be loaded, so that no block holds work that another could start.
template <class S>
__device__ __forceinline__ void fetch_items(Shared<S>& smem, const AttentionParams& params) {
  const CudaPlan& plan = params.plan;
  const Fold fold = plan.fold;
  const int32_t num_items = *plan.num_items;
  int32_t index = static_cast<int32_t>(blockIdx.x);
  for (int turn = 0;; ++turn) {
    const int slot = turn % kItemSlots;
    if (turn > 0) {
      ptx::mbarrier_wait(smem.item_wanted, (turn - 1) & 1);
      index = static_cast<int32_t>(gridDim.x) + atomicAdd(params.work_counter, 1);
    }
    ptx::mbarrier_wait(smem.item_empty[slot], (turn / kItemSlots & 1) ^ 1);
    ItemInfo& info = smem.item[slot];
    if (index >= num_items) {
      info.index = -1;
      ptx::mbarrier_arrive(smem.item_full[slot]);
      return;
    }
    const CudaItem item = plan.items[index];
    const CudaSequence sequence = params.sequences[item.sequence];
    info.index = index;
    info.run_begin = item.run_begin;
    info.run_end = item.run_end;
    info.n_begin = item.n_begin;
    info.n_end = item.n_end;
    info.sequence = item.sequence;
    info.s_q = sequence.s_q;
    info.s_kv = sequence.s_kv;
    info.q_head = fold.first_head(item.head);
    info.token_begin = item.m_block * fold.tokens(S::kTileM);
    info.kv_head = info.q_head / params.group;
    // Packed: rows beyond the sequence are out of the map's bounds, see launch/tensor_map.h.
    const bool packed = params.packed != 0;
    info.q_token = packed ? (1 << 30) - sequence.s_q : 0;
    info.q_outer = static_cast<int32_t>(packed ? sequence.q_begin + sequence.s_q : sequence.batch);
    info.kv_token = packed ? (1 << 30) - sequence.s_kv : 0;
    info.kv_outer = static_cast<int32_t>(packed ? sequence.kv_begin + sequence.s_kv : sequence.batch);
    info.partial = item.num_splits > 1 ? item.partial + item.split : -1;
    const int32_t rows = min((sequence.s_q - info.token_begin) * fold.heads(), S::kTileM);
    info.live = (1u << 2 * ((rows + 63) / 64)) - 1;
    info.batch = sequence.batch;
    info.q_begin = sequence.q_begin;
    ptx::mbarrier_arrive(smem.item_full[slot]);
  }
}

template <class S>
struct Loader {
  Shared<S>& smem;
  const Maps& maps;
  const AttentionParams& params;
  Ring<S::kStages> ring;
  Ring<S::kQSlots> q_ring;
  bool behind = false;  // V of the last tile is still to be loaded

  // kRows rows from `token` on, as 64-wide blocks.
  template <int kRows, int kBlocks>
  __device__ __forceinline__ void blocks(typename S::T* to, const CUtensorMap& map, uint64_t& barrier, int32_t head,
                                         int32_t token, int32_t outer) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      ptx::tma_load(to + i * kRows * 64, map, barrier, {i * 64, head, token, outer, maps.wrap});
    }
  }

  // V of the tile in `stage`, `phase`.
  __device__ __forceinline__ void value(int stage, uint32_t phase) {
    const ValueBox box = smem.value[stage];
    ptx::mbarrier_wait(smem.v_empty[stage], phase ^ 1);
    if (box.present == 0) {
      ptx::mbarrier_arrive(smem.v_full[stage]);
      return;
    }
    ptx::mbarrier_arrive_expect(smem.v_full[stage], sizeof(smem.v[0]));
    blocks<S::kN, S::kBlocksV>(smem.v[stage], maps.v, smem.v_full[stage], box.head, box.token, box.outer);
  }
  // Called once the ring has taken a tile: V of the one before, and on.
  __device__ __forceinline__ void advance(bool has_value) {
    if (behind) {
      const int before = ring.stage == 0 ? S::kStages - 1 : ring.stage - 1;
      value(before, ring.stage == 0 ? ring.phase ^ 1 : ring.phase);
    }
    behind = has_value;
    ring.advance();
  }

  // A tile without loads: an item that keeps nothing, or the end.
  __device__ __forceinline__ void mark(uint32_t flags) {
    ptx::mbarrier_wait(smem.k_empty[ring.stage], ring.phase ^ 1);
    smem.tile[ring.stage] = {0, flags, 0, 0};
    smem.value[ring.stage].present = 0;
    ptx::mbarrier_arrive(smem.k_full[ring.stage]);
    advance((flags & kStop) == 0);
  }

  __device__ __forceinline__ void key(const ItemInfo& item, int32_t key_begin, int32_t bit_tile, uint32_t flags) {
    const int stage = ring.stage;
    ptx::mbarrier_wait(smem.k_empty[stage], ring.phase ^ 1);
    const int32_t token = item.kv_token + key_begin, head = item.kv_head, outer = item.kv_outer;
    blocks<S::kN, S::kBlocks>(smem.k[stage], maps.k, smem.k_full[stage], head, token, outer);
    const int32_t limit = item.s_kv - key_begin;
    uint32_t bytes = sizeof(smem.k[0]), kinds;
    if (bit_tile >= 0) {
      ptx::bulk_load(smem.bits[stage], params.plan.bit_units + int64_t{bit_tile} * (S::kWarpgroups * 256),
                     sizeof(smem.bits[0]), smem.k_full[stage]);
      bytes += sizeof(smem.bits[0]);
      kinds = params.plan.tile_kinds[bit_tile];
    } else {  // the same for every warpgroup
      kinds = static_cast<uint32_t>(limit < S::kN ? Slice::limit : Slice::full) * 0x15u;
    }
    smem.tile[stage] = {kinds & item.live, flags, key_begin, limit};
    smem.value[stage] = {head, token, outer, 1};
    ptx::mbarrier_arrive_expect(smem.k_full[stage], bytes);
    advance(true);
  }

  __device__ __forceinline__ void item(const ItemInfo& item, uint32_t slot) {
    ptx::mbarrier_wait(smem.q_empty[q_ring.stage], q_ring.phase ^ 1);
    ptx::mbarrier_arrive_expect(smem.q_full[q_ring.stage], sizeof(smem.q[0]));
    blocks<S::kTileM, S::kBlocks>(smem.q[q_ring.stage], maps.q, smem.q_full[q_ring.stage], item.q_head,
                                  item.q_token + item.token_begin, item.q_outer);
    q_ring.advance();
    uint32_t flags = kFirst | kHasQ | slot << kSlotShift;
    const int32_t last = item.run_end - 1;
    for (int32_t r = item.run_begin; r <= last; ++r) {
      const Run run = params.plan.runs[r];
      const int32_t begin = r == item.run_begin ? item.n_begin : run.n_begin;
      // Keys beyond the sequence would fill half of its last tile when kN is 64.
      int32_t end = (r == last ? item.n_end : run.n_end) * kPlanN;
      if (S::kN < kPlanN) end = min(end, item.s_kv);
      int32_t bits = run.kind == RunKind::full ? -1 : run.bits;
      if (run.kind == RunKind::partial) bits += begin - run.n_begin;
      for (int32_t key_begin = begin * kPlanN; key_begin < end; key_begin += S::kN) {
        if (r == last && key_begin + S::kN >= end) {
          flags |= kEnd;
          ptx::mbarrier_arrive(smem.item_wanted);
        }
        key(item, key_begin, bits, flags);
        flags &= ~kFirst;
        if (run.kind == RunKind::partial && (S::kN == kPlanN || (key_begin & S::kN) != 0)) ++bits;
      }
    }
  }
};

template <class S>
__device__ __forceinline__ void load_tiles(Shared<S>& smem, const Maps& maps, const AttentionParams& params) {
  Loader<S> loader{smem, maps, params, {}, {}};
  for (int turn = 0;; ++turn) {
    const int slot = turn % kItemSlots;
    ptx::mbarrier_wait(smem.item_full[slot], turn / kItemSlots & 1);
    const ItemInfo& item = smem.item[slot];
    if (item.index < 0) break;
    if (item.run_begin < item.run_end) {
      loader.item(item, static_cast<uint32_t>(slot));
    } else {
      ptx::mbarrier_arrive(smem.item_wanted);
      loader.mark(kFirst | kEnd | static_cast<uint32_t>(slot) << kSlotShift);
    }
    ptx::mbarrier_arrive(smem.item_empty[slot]);
  }
  loader.mark(kFirst | kStop);
}

}  // namespace anymask::sm90
