// What every consumer warpgroup of sm90_attention_fwd has: 64 rows of O in registers, its place in the rings, the two
// products, the words of mask bits, and the end of an item.
//
// Where a thread's rows are is computed from its index where it is used: a register each for the whole kernel is more
// than three warpgroups of 160 registers can spare.
#pragma once

#include <cstdint>

#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/threads.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/tile/merge_pieces.cuh"
#include "cuda/tile/sm90_epilogue.cuh"
#include "cuda/tile/sm90_scores.cuh"
#include "cuda/tile/sm90_shared.cuh"
#include "cuda/tile/sm90_softmax.cuh"
#include "cuda/tile/sm90_turns.cuh"

namespace anymask::sm90 {

inline constexpr int kMergeBarrier = 8;  // and those behind it, one a warpgroup

// The flags of a tile, and what this warpgroup's rows keep of it.
struct Turn {
  uint32_t flags;
  Slice kind;
  __device__ __forceinline__ bool first() const { return (flags & kFirst) != 0; }
  __device__ __forceinline__ bool end() const { return (flags & kEnd) != 0; }
  __device__ __forceinline__ bool stop() const { return (flags & kStop) != 0; }
  __device__ __forceinline__ bool has_q() const { return (flags & kHasQ) != 0; }
  __device__ __forceinline__ int slot() const { return static_cast<int>(flags >> kSlotShift); }
};

template <class S>
struct Warpgroup {
  using T = typename S::T;
  Shared<S>& smem;
  const AttentionParams& params;
  const int index;  // of the consumer warpgroups

  Softmax<T, S::kN, S::kModified> rows{};
  float o[S::kDv / 2];
  Ring<S::kStages> ring{};
  Ring<S::kQSlots> q_ring{};
  Turns<S::kWarpgroups> turns{};

  __device__ __forceinline__ int lane() const { return ptx::thread_index() % 32; }
  __device__ __forceinline__ int row() const {  // of the warpgroup's 64; and row() + 8
    const int thread = ptx::thread_index();
    return thread % 128 / 32 * 16 + thread % 32 / 4;
  }
  __device__ __forceinline__ float scale_log2() const {
    return S::kModified && natural_scores(params) ? log2_e_f : params.softmax_scale * log2_e_f;
  }

  __device__ __forceinline__ void release(uint64_t& barrier) const {
    if (lane() == 0) ptx::mbarrier_arrive(barrier);
  }
  __device__ __forceinline__ Ring<S::kStages> before() const {
    return {ring.stage == 0 ? S::kStages - 1 : ring.stage - 1, ring.stage == 0 ? ring.phase ^ 1 : ring.phase};
  }

  // Waits for a tile's K and says what it is.
  __device__ __forceinline__ Turn arrive(const Ring<S::kStages>& at) const {
    ptx::mbarrier_wait(smem.k_full[at.stage], at.phase);
    const uint2 info = *reinterpret_cast<const uint2*>(&smem.tile[at.stage]);
    return {ptx::uniform(info.y), static_cast<Slice>(ptx::uniform(info.x >> (2 * index) & 3))};
  }
  // K of this turn, and Q at its item's end, are no longer needed.
  __device__ __forceinline__ void release_k(const Turn& turn) const {
    release(smem.k_empty[ring.stage]);
    if (turn.end() && turn.has_q()) release(smem.q_empty[q_ring.stage]);
  }

  // S = Q K^T, issued.
  __device__ __forceinline__ void issue_scores(float (&s)[S::kN / 2]) const {
    const uint64_t q = ptx::descriptor(ptx::shared_address(smem.q[q_ring.stage]) + index * 64 * 128, 16, 1024);
    const uint64_t k = ptx::descriptor(ptx::shared_address(smem.k[ring.stage]), 16, 1024);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < S::kD / 16; ++i) {
      const uint64_t q_step = i % 4 * 2 + i / 4 * (S::kTileM * 128 / 16),
                     k_step = i % 4 * 2 + i / 4 * (S::kN * 128 / 16);
      ptx::Wgmma<T, S::kN>::template ss<0, 0>(s, q + q_step, k + k_step, i != 0);
    }
    ptx::wgmma_commit();
  }
  // O += P V, issued once V is there.
  __device__ __forceinline__ void issue_output(const uint32_t (&p)[S::kN / 4], const Ring<S::kStages>& at) {
    ptx::mbarrier_wait(smem.v_full[at.stage], at.phase);
    const uint64_t v = ptx::descriptor(ptx::shared_address(smem.v[at.stage]), S::kN * 128, 1024);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < S::kN / 16; ++i) {
      ptx::Wgmma<T, S::kDv>::template rs<1>(o, reinterpret_cast<const uint32_t(&)[4]>(p[4 * i]), v + i * (2048 / 16),
                                            true);
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void wait_output(const Ring<S::kStages>& at) {
    ptx::wgmma_wait<0>();
    ptx::wgmma_settle(o);
    release(smem.v_empty[at.stage]);
  }
  // A tile of which these rows keep nothing: its V passes unread.
  __device__ __forceinline__ void skip_value() const {
    ptx::mbarrier_wait(smem.v_full[ring.stage], ring.phase);
    release(smem.v_empty[ring.stage]);
  }

  // Words of kept columns for this thread's two rows. To be read before K's stage is released.
  __device__ __forceinline__ void keep_words(const Turn& turn, uint32_t (&keep)[2]) const {
    const TileInfo& tile = smem.tile[ring.stage];
    const int quarter = lane() % 4;
    if (S::kBands && turn.kind == Slice::computed && has_band<S>(params)) {
      const KeyRange* const kept = smem.rows[turn.slot()] + index * 64 + row();
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const KeyRange keys = kept[8 * h];
        keep[h] = word_below<S::kN>(keys.end - tile.key_begin, quarter) &
                  ~word_below<S::kN>(keys.begin - tile.key_begin, quarter);
      }
    } else if (turn.kind == Slice::bits) {
      const uint32_t* const unit = smem.bits[ring.stage] + index * 256 + row() * 4 + quarter;
      const int half = S::kN < kPlanN && (tile.key_begin & S::kN) != 0 ? 16 : 0;
      keep[0] = unit[0] >> half;
      keep[1] = unit[32] >> half;
    } else {
      keep[0] = keep[1] = turn.kind == Slice::computed ? word_below<S::kN>(tile.limit, quarter) : 0xffffffffu;
    }
    __syncwarp();
  }

  __device__ __forceinline__ void clear_output() {
#pragma unroll
    for (float& x : o) x = 0;
  }
  __device__ __forceinline__ void rescale_output(const float (&alpha)[2]) {
#pragma unroll
    for (int i = 0; i < S::kDv / 2; ++i) o[i] *= alpha[i / 2 % 2];
  }

  // The item in `slot` is whole in m and l: lse is written, 1 / l returned.
  __device__ __forceinline__ void finish(int slot, float (&inverse)[2]) const {
    write_lse<S>(rows, inverse, params, smem.item[slot], index * 64 + row(), lane() % 4);
  }
  // And in O: out is written, or merged with the row's other pieces. `last`: of this block's items.
  __device__ __forceinline__ void write(int slot, const float (&inverse)[2], bool last) const {
    write_out<S>(o, inverse, params, smem.item[slot], index * 64 + row(), lane() % 4);
    if (smem.item[slot].partial >= 0) merge(smem.item[slot], last);
    __syncwarp();
    release(smem.item_empty[slot]);
  }

 private:
  __device__ __forceinline__ void merge(const ItemInfo& item, bool last) const {
    const Fold fold = params.plan.fold;
    const int32_t num_rows = min((item.s_q - item.token_begin) * fold.heads() - index * 64, 64);
    if (num_rows <= 0) return;
    const int64_t first = item.partial - item.split;
    merge_pieces<T>(
        params, params.arrivals[first * S::kWarpgroups + index], item.num_splits, num_rows, kMergeBarrier + index, last,
        [this] { ptx::mbarrier_wait(smem.arrivals_open, 0); },
        [&](int32_t i) {
          const int32_t r = index * 64 + i, head = item.q_head + fold.head(r);
          return PieceRow{first,
                          item.num_splits,
                          r,
                          item.sequence,
                          head,
                          item.batch,
                          item.q_begin + item.token_begin + fold.token(r)};
        });
  }
};

}  // namespace anymask::sm90
