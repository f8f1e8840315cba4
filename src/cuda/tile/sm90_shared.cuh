// What the warps of sm90_attention_fwd share: its compile-time shape, its shared memory, and the words they exchange.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/tile/band_rows.cuh"

namespace anymask::sm90 {

inline constexpr int kPlanN = 128;    // key columns of a plan's tile
inline constexpr int kItemSlots = 4;  // an item in its epilogue, one being computed, one being loaded, one fetched

// T: __nv_bfloat16 or __half. kD, kDv: multiples of 32; narrower heads are padded with zeros by the loads. A tile is
// 64 * kWarpgroups rows by kN keys, kN = 128 or 64 (half a tile of the plan). S of a tile and P V of the one before are
// issued together, but where three warpgroups have not the registers for it. kModified: softcap, bias, ALiBi, or a
// scale that is not positive.
template <class T_, int kD_, int kDv_, int kWarpgroups_, int kN_, int kStages_, int kQSlots_, bool kModified_>
struct Shape {
  using T = T_;
  static constexpr int kD = kD_, kDv = kDv_, kWarpgroups = kWarpgroups_, kN = kN_, kStages = kStages_;
  static constexpr int kQSlots = kQSlots_;
  static constexpr bool kOverlap = kWarpgroups == 2 || kDv <= 64, kModified = kModified_;
  static constexpr int kTileM = 64 * kWarpgroups, kThreads = 128 * (1 + kWarpgroups);
  static constexpr int kConsumerWarps = 4 * kWarpgroups;
  static constexpr int kBlocks = (kD + 63) / 64, kBlocksV = (kDv + 63) / 64;
  // Together the launch's own registers: 168 a thread for 384 threads, 128 for 512.
  // Bands take 56 in the warps that evaluate rows; three warpgroups that compute leave 32, and calls have plans then.
  static constexpr bool kBands = kWarpgroups == 2;
  static constexpr int kLoaderRegisters = kBands ? 56 : 32;
  static constexpr int kConsumerRegisters = kBands ? 224 : 160;
  static_assert(kD % 32 == 0 && kDv % 32 == 0 && (kN == 64 || kN == 128) && (kWarpgroups == 2 || kWarpgroups == 3));
};

// The tensor maps: axes (dim, head, token, outer, wrap), see launch/tensor_map.h.
struct Maps {
  CUtensorMap q, k, v;
  int32_t wrap;     // the fifth coordinate
  uint64_t policy;  // of the second-level cache
};
// As createpolicy makes them. What is read once leaves first: else a call that reads gigabytes drives its own
// instructions out of the cache, and those of the kernels around it.
inline constexpr uint64_t kEvictNormal = 0x1000000000000000, kEvictFirst = 0x12f0000000000000;

// What the 64 rows of a warpgroup keep of a tile; two bits a warpgroup in TileInfo::kinds. The first three are the
// plan's own; computed: the keys below TileInfo::limit, or, of a band, what Shared::rows says of each row.
enum class Slice : uint32_t { empty = 0, full = 1, bits = 2, computed = 3 };

inline constexpr uint32_t kFirst = 1;  // the first tile of an item
inline constexpr uint32_t kEnd = 2;    // the last one
inline constexpr uint32_t kHasQ = 4;   // of an item that has loads; one that keeps nothing passes as one empty tile
inline constexpr uint32_t kStop = 8;   // no tile, and no further one
inline constexpr int kSlotShift = 8;   // the item's slot, above

struct alignas(16) TileInfo {
  uint32_t kinds, flags;
  int32_t key_begin, limit;  // limit counts from key_begin
};

// Where the loader finds a tile's V when its turn comes, one tile after its K.
struct alignas(16) ValueBox {
  int32_t head, token, outer, present;
};

// One item, as its warps need it: written by the warp that fetches items.
struct alignas(16) ItemInfo {
  int32_t index;                               // in the plan's list; -1: no more
  int32_t run_begin, run_end, n_begin, n_end;  // as in CudaItem; of a band unused
  int32_t sequence, s_q, s_kv;
  int32_t q_head, token_begin;  // of the tile's row 0
  int32_t kv_head;
  int32_t q_token, q_outer, kv_token, kv_outer;  // map coordinates of the sequence's row 0 and key 0
  int32_t split, num_splits;                     // this piece of that many of the row
  int32_t partial;                               // slot of this piece's results; -1: the row is whole
  uint32_t live;                                 // two bits for each warpgroup that has rows
  int64_t batch, q_begin;
  KeyBounds keys[3];  // of a band: of each warpgroup's rows
};

template <class S>
struct alignas(1024) Shared {
  typename S::T q[S::kQSlots][S::kBlocks * S::kTileM * 64];  // 64-wide blocks of rows, 128-byte swizzle
  typename S::T k[S::kStages][S::kBlocks * S::kN * 64];
  typename S::T v[S::kStages][S::kBlocksV * S::kN * 64];
  uint32_t bits[S::kStages][S::kWarpgroups * 256];  // units in fragment order
  TileInfo tile[S::kStages];
  ValueBox value[S::kStages];
  ItemInfo item[kItemSlots];
  KeyRange rows[S::kBands ? kItemSlots : 1][S::kBands ? S::kTileM : 1];  // of a band
  int32_t drawn;                                                         // the item that comes next
  uint64_t item_full[kItemSlots], item_empty[kItemSlots], item_wanted;
  uint64_t arrivals_open;
  uint64_t q_full[S::kQSlots], q_empty[S::kQSlots];
  uint64_t k_full[S::kStages], k_empty[S::kStages], v_full[S::kStages], v_empty[S::kStages];
};

template <class S>
__device__ __forceinline__ bool has_band(const AttentionParams& params) {
  return S::kBands && params.band.present != 0;
}

// Whether an item's tiles come in descending order. With ALiBi the nearest keys of causal rows then come first, and m
// is rarely moved. A loader of 32 registers has not enough of them for both directions.
template <class S>
__device__ __forceinline__ bool descends(const AttentionParams& params) {
  return S::kModified && S::kLoaderRegisters > 32 && params.alibi.data != nullptr;
}

// A ring's place: stage, and the parity of its current phase.
template <int kStages>
struct Ring {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

}  // namespace anymask::sm90
