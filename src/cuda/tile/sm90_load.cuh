// What feeds the consumers: a warp that fetches items, and of a band computes what their rows keep, and a thread that
// loads Q, K, V and mask bits.
//
// K runs a tile ahead of V, as the consumers do: S of a tile is issued before P V of the tile before it. All loads
// are in one thread, in the order in which their memory becomes free.
#pragma once

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/sm90_shared.cuh"

namespace anymask::sm90 {

inline constexpr int kTilesAhead = 3, kFetchBarrier = 15;

// What 64 rows of an item keep, of a band: one warp a warpgroup's rows. Rows beyond the last one repeat it; of folded
// heads each row is computed for itself.
template <class S>
__device__ __forceinline__ void fetch_rows(Shared<S>& smem, const AttentionParams& params, int slot, int32_t sequence,
                                           int32_t head, int32_t m_block, int32_t s_q, int w, int lane) {
  const Fold fold = params.plan.fold;
  const int32_t token_begin = m_block * fold.tokens(S::kTileM);
  const int32_t plane = band_plane(params.band, sequence, head);
  KeyRange* const rows = smem.rows[slot] + 64 * w + lane;
#pragma unroll 1
  for (int half = 0; half < 64; half += 32) {
    const int32_t token = fold.token(64 * w + half + lane);
    rows[half] = band_row(params.band, plane, min(token_begin + token, s_q - 1));
  }
  KeyBounds keys = bounds_of(rows[0]);
  keys.join(bounds_of(rows[32]));
  keys = warp_bounds(keys);
  if (lane == 0) smem.item[slot].keys[w] = keys;
}

// Items, one ahead of the loader: the next is taken only when the last tiles of the present one are about to be loaded,
// so that no block holds work that another could start. Warp 1 of the loading warpgroup takes them; of a band it and
// those behind it, as many as there are consumer warpgroups, compute what rows keep.
template <class S>
__device__ __forceinline__ void fetch_items(Shared<S>& smem, const AttentionParams& params) {
  // Asked again where they are used, as everything that a few registers cannot keep.
  const auto lane = [] { return ptx::thread_index() % 32; };
  const auto warp = [] { return ptx::thread_index() / 32 % 4; };
  const auto takes = [] { return ptx::thread_index() == 32; };
  const bool band = has_band<S>(params);
  if (takes()) open_tickets(params, count_items(params));
  int32_t index = static_cast<int32_t>(blockIdx.x);
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    const int slot = turn % kItemSlots;
    if (turn > 0) {
      if (warp() == 1) {
        ptx::mbarrier_wait(smem.item_wanted, (turn - 1) & 1);
        if (takes()) smem.drawn = draw_ticket(params, count_items(params), turn == 1);
        __syncwarp();
      }
      // Not drawn again before all have arrived for this item.
      if (band) ptx::barrier_sync(kFetchBarrier, 32 * S::kWarpgroups);
      index = smem.drawn;
    }
    ptx::mbarrier_wait(smem.item_empty[slot], (turn / kItemSlots & 1) ^ 1);
    ItemInfo& info = smem.item[slot];
    if (index >= count_items(params)) {
      if (takes()) info.index = -1;
      if (lane() == 0) ptx::mbarrier_arrive(smem.item_full[slot]);
      return;
    }
    int32_t sequence_index, head, m_block;
    const auto take = [&](const CudaItem& item) {
      sequence_index = item.sequence, head = item.head, m_block = item.m_block;
      if (!takes()) return;
      info.split = item.split;
      info.num_splits = item.num_splits;
      info.partial = item.num_splits > 1 ? item.partial + item.split : -1;
    };
    if (band) {
      take(band_item(params.band, index));
    } else {
      const CudaItem& item = params.plan.items[index];
      take(item);
      if (takes()) {
        info.run_begin = item.run_begin;
        info.run_end = item.run_end;
        info.n_begin = item.n_begin;
        info.n_end = item.n_end;
      }
    }
    const CudaSequence sequence = sequence_of(params, sequence_index);
    if (takes()) {
      info.index = index;
      info.sequence = sequence_index;
      info.s_q = sequence.s_q;
      info.s_kv = sequence.s_kv;
      info.batch = sequence.batch;
      info.q_begin = sequence.q_begin;
      // Packed: rows beyond the sequence are out of the map's bounds, see launch/tensor_map.h.
      const bool packed = params.packed != 0;
      info.q_token = packed ? (1 << 30) - sequence.s_q : 0;
      info.q_outer = static_cast<int32_t>(packed ? sequence.q_begin + sequence.s_q : sequence.batch);
      info.kv_token = packed ? (1 << 30) - sequence.s_kv : 0;
      info.kv_outer = static_cast<int32_t>(packed ? sequence.kv_begin + sequence.s_kv : sequence.batch);
      info.q_head = params.plan.fold.first_head(head);
      info.kv_head = params.plan.fold.first_head(head) / opaque(params.group);
      const int32_t token_begin = m_block * params.plan.fold.tokens(S::kTileM);
      info.token_begin = token_begin;
      const int32_t rows = min((sequence.s_q - token_begin) * params.plan.fold.heads(), S::kTileM);
      info.live = (1u << 2 * ((rows + 63) / 64)) - 1;
    }
    // Last: what the item and its sequence hold is no longer needed.
    if (band) fetch_rows(smem, params, slot, sequence_index, head, m_block, sequence.s_q, warp() - 1, lane());
    __syncwarp();
    if (lane() == 0) ptx::mbarrier_arrive(smem.item_full[slot]);
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
      ptx::tma_load(to + i * kRows * 64, map, barrier, {i * 64, head, token, outer, maps.wrap}, maps.policy);
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

  // Of a band, of all rows: the piece's share.
  __device__ __forceinline__ static KeyBounds bounds(const ItemInfo& item) {
    KeyBounds all = item.keys[0];
#pragma unroll
    for (int w = 1; w < S::kWarpgroups; ++w) all.join(item.keys[w]);
    all.clip(item.split, item.num_splits);
    return all;
  }
  // What each warpgroup's rows of a band keep of a tile.
  __device__ __forceinline__ uint32_t band_kinds(const ItemInfo& item, int32_t key_begin) const {
    uint32_t kinds = 0;
#pragma unroll
    for (int w = 0; w < S::kWarpgroups; ++w) {
      const KeyBounds keys = item.keys[w];
      const int32_t key_end = key_begin + S::kN;
      const Slice kind = key_end <= keys.begin || key_begin >= keys.end             ? Slice::empty
                         : key_begin >= keys.full_begin && key_end <= keys.full_end ? Slice::full
                                                                                    : Slice::computed;
      kinds |= static_cast<uint32_t>(kind) << (2 * w);
    }
    return kinds;
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
    } else if (has_band<S>(params)) {
      kinds = band_kinds(item, key_begin);
    } else {  // the same for every warpgroup
      kinds = static_cast<uint32_t>(limit < S::kN ? Slice::computed : Slice::full) * 0x15u;
    }
    smem.tile[stage] = {kinds & item.live, flags, key_begin, limit};
    smem.value[stage] = {head, token, outer, 1};
    ptx::mbarrier_arrive_expect(smem.k_full[stage], bytes);
    advance(true);
  }

  // The runs of an item backwards.
  __device__ __forceinline__ void descend(const ItemInfo& item, uint32_t flags) {
    for (int32_t r = item.run_end - 1; r >= item.run_begin; --r) {
      const Run run = params.plan.runs[r];
      const int32_t n_end = r == item.run_end - 1 ? item.n_end : run.n_end;
      const int32_t begin = (r == item.run_begin ? item.n_begin : run.n_begin) * kPlanN;
      int32_t key_begin = n_end * kPlanN;
      if (S::kN < kPlanN) key_begin = min(key_begin, (item.s_kv + S::kN - 1) / S::kN * S::kN);
      int32_t bits = run.kind == RunKind::full ? -1 : run.bits;
      if (run.kind == RunKind::partial) bits += n_end - 1 - run.n_begin;
      while ((key_begin -= S::kN) >= begin) {
        if (r == item.run_begin && key_begin == begin) {
          flags |= kEnd;
          ptx::mbarrier_arrive(smem.item_wanted);
        }
        key(item, key_begin, bits, flags);
        flags &= ~kFirst;
        if (run.kind == RunKind::partial && (S::kN == kPlanN || (key_begin & S::kN) == 0)) --bits;
      }
    }
  }

  __device__ __forceinline__ void item(const ItemInfo& item, uint32_t slot) {
    ptx::mbarrier_wait(smem.q_empty[q_ring.stage], q_ring.phase ^ 1);
    ptx::mbarrier_arrive_expect(smem.q_full[q_ring.stage], sizeof(smem.q[0]));
    blocks<S::kTileM, S::kBlocks>(smem.q[q_ring.stage], maps.q, smem.q_full[q_ring.stage], item.q_head,
                                  item.q_token + item.token_begin, item.q_outer);
    q_ring.advance();
    uint32_t flags = kFirst | kHasQ | slot << kSlotShift;
    if (has_band<S>(params)) {
      const KeyBounds all = bounds(item);
      const int32_t first = all.begin / S::kN * S::kN;
      // The next item takes longer to prepare than a plan's: it is wanted some tiles earlier.
      const int32_t wanted = max(first, (all.end - 1) / S::kN * S::kN - kTilesAhead * S::kN);
      const int32_t last = (all.end - 1) / S::kN * S::kN;
      for (int32_t at = first; at <= last; at += S::kN) {
        if (at == last) flags |= kEnd;
        if (at == wanted) ptx::mbarrier_arrive(smem.item_wanted);
        key(item, descends<S>(params) ? first + last - at : at, -1, flags);
        flags &= ~kFirst;
      }
      return;
    }
    const int32_t last = item.run_end - 1;
    if (descends<S>(params)) return descend(item, flags);
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
    if (has_band<S>(params) ? !loader.bounds(item).empty() : item.run_begin < item.run_end) {
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
