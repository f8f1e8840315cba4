// dQ without atomics, and dbias: exact attention backward, query-stationary, for sm_80 and everything later. The second
// pass of a deterministic backward, and of every backward that wants dbias.
//
//   S = Q K^T    P = exp2(c S - lse)    dP = dO V^T    dS = P (dP - delta)    dQ += dS K    (times scale at the end)
//
// Inputs [batch, token, head, dim]; the plan is the forward one, rows of `rows` queries, items count query heads, or a
// band, of which each row's keys are computed here; row_lse and delta come from backward_delta. Outputs dq, every row
// of it, and dbias where pairs are kept.
//
// A block begins with the item of its own number and takes others from a counter. Q and dO stay in shared memory, K and
// V stream through two buffers of `keys` rows. A warp owns 16 rows: nothing passes between warps, dS is the next
// product's operand as it lies in registers, and a step has one barrier. Two blocks share an SM where they fit: one
// multiplies while the other exponentiates.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/backward_products.cuh"
#include "cuda/tile/backward_score.cuh"
#include "cuda/tile/backward_scratch.h"
#include "cuda/tile/band_rows.cuh"
#include "cuda/tile/copy_tile.cuh"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/mask_bits.cuh"
#include "cuda/tile/row_at.cuh"
#include "cuda/tile/run_cursor.cuh"
#include "cuda/tile/swizzle.cuh"

namespace anymask {

// A step of keys. Written by one thread two steps ahead: registers are what this kernel is short of.
struct DqStep {
  int32_t key0, bit_tile;  // key0 < 0: there is no such step; bit_tile -1: FULL
};

template <class T_, int head_dim_, int warps_, int keys_>
struct DqTile {
  using T = T_;
  static constexpr int head_dim = head_dim_, warps = warps_, keys = keys_;
  static constexpr int rows = 16 * warps, threads = 32 * warps;
  static constexpr int blocks =
      head_dim == 96 ? 1 : 2;  // on an SM; with 96, 64 keys a step need more than 128 registers
  static_assert(128 % keys == 0 && keys % 16 == 0 && rows % 64 == 0);

  struct alignas(128) Shared {
    uint16_t q[rows * head_dim], dout[rows * head_dim];  // dQ at the end, over q
    uint16_t k[2][keys * head_dim], v[2][keys * head_dim];
    float lse[rows], delta[rows];
    CudaItem item;
    CudaSequence sequence;
    RunCursor cursor;
    KeyRange ranges[rows];    // of a band: what each row keeps
    KeyBounds bounds[warps];  // and what each warp's rows do together
    BandRuns runs;
    DqStep steps[4];
    ScoreTerms terms;
    float dbias_unit;
    int32_t index;
  };
};

template <class Tile>
__device__ __forceinline__ void dq_write_step(typename Tile::Shared& s, int slot, const AttentionParams& p) {
  DqStep& step = s.steps[slot];
  step.key0 = -1;
  if (s.cursor.done()) return;
  step = {s.cursor.key, s.cursor.full() ? -1 : s.cursor.bit_tile()};
  if (p.band.present) {
    s.cursor.advance(Tile::keys, s.runs);
  } else {
    s.cursor.advance(Tile::keys, s.item, p.plan.runs, s.sequence.s_kv);
  }
}

// The first two steps of an item, by one thread, when a band's bounds are there.
template <class Tile>
__device__ __forceinline__ void dq_open_steps(typename Tile::Shared& s, const AttentionParams& p) {
  if (p.band.present) {
    KeyBounds together = s.bounds[0];
#pragma unroll 1
    for (int warp = 1; warp < Tile::warps; ++warp) together.join(s.bounds[warp]);
    s.runs.set(together, Tile::keys, s.sequence.s_kv);
    s.cursor.start(s.runs);
  } else {
    s.cursor.start(s.item, p.plan.runs, s.sequence.s_kv);
  }
  dq_write_step<Tile>(s, 0, p);
  dq_write_step<Tile>(s, 1, p);
}

// K and V of the step at `key`.
template <class Tile>
__device__ __forceinline__ void dq_load_step(typename Tile::Shared& s, int key, int stage, const AttentionParams& p,
                                             const BackwardScratch& w) {
  const int64_t token = s.sequence.kv_begin + key;
  const int kv_head = s.item.head / p.group, left = s.sequence.s_kv - key;
  load_tile<Tile::keys, Tile::head_dim, Tile::threads>(ptx::shared_address(s.k[stage]),
                                                       row_at(p.k, s.sequence.batch, token, kv_head), p.k.stride_s,
                                                       left, p.d_qk, w.aligned != 0, threadIdx.x);
  load_tile<Tile::keys, Tile::head_dim, Tile::threads>(ptx::shared_address(s.v[stage]),
                                                       row_at(p.v, s.sequence.batch, token, kv_head), p.v.stride_s,
                                                       left, p.d_v, w.aligned != 0, threadIdx.x);
}

// A pair's dS to dbias_sum; `index` counts in dbias_shape.
__device__ __forceinline__ void add_dbias(const BackwardScratch& w, int64_t index, float unit, float ds) {
  if (ds != 0) atomicAdd(w.dbias_sum + index, static_cast<unsigned long long>(__float2ll_rn(ds * unit)));
}

// dbias of a warp's 16 x `keys` pairs; dropped ones have dS = 0. Stored where each pair has its element, else added:
// broadcast over rows, the warp's 16 rows first, by a tree. A function of its own: inlined, its addresses spill others'
// registers.
template <int n_tiles>
__device__ __noinline__ void dq_write_dbias(const float (&ds)[n_tiles][4], const uint32_t (&words)[2], int row0,
                                            int key0, int lane, int sequence, int head, float unit,
                                            const AttentionParams& p, const BackwardScratch& w) {
  const bool by_row = w.dbias_shape[2] > 1, by_head = w.dbias_shape[1] > 1, by_sequence = w.dbias_shape[0] > 1;
  const int bias_head = by_head ? head / p.dbias.group : 0, bias_sequence = by_sequence ? sequence : 0;
  if (w.dbias_sum == nullptr) {
    const int64_t base = bias_sequence * p.dbias.stride_b + bias_head * p.dbias.stride_h;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (words[i / 2] & (1u << (2 * n + i % 2)))
          store_element(p.dbias.data, p.dbias.dtype,
                        base + (row0 + i / 2 * 8) * p.dbias.stride_q + (key0 + n * 8 + i % 2) * p.dbias.stride_kv,
                        ds[n][i]);
      }
    }
    return;
  }
  const int64_t plane = (bias_sequence * w.dbias_shape[1] + bias_head) * w.dbias_shape[2];
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) {
    if (by_row) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        add_dbias(w, (plane + row0 + i / 2 * 8) * w.dbias_shape[3] + key0 + n * 8 + i % 2, unit, ds[n][i]);
    } else {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float sum = ds[n][e] + ds[n][2 + e];
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        if (lane < 4) add_dbias(w, plane * w.dbias_shape[3] + key0 + n * 8 + e, unit, sum);
      }
    }
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks)
    sm80_attention_bwd_dq(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
  using T = typename Tile::T;
  constexpr int head_dim = Tile::head_dim, n_tiles = Tile::keys / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& s = *reinterpret_cast<typename Tile::Shared*>(memory);
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
  const uint32_t row_offset = static_cast<uint32_t>(warp_row * head_dim * 2);

  ptx::wait_for_previous();
  const int num_items = count_items(p);
  if (threadIdx.x == 0) s.index = static_cast<int32_t>(blockIdx.x);
  __syncthreads();
  while (s.index < num_items) {
    if (threadIdx.x == 0) {
      s.item = item_of(p, s.index);
      s.sequence = sequence_of(p, s.item.sequence);
      if (w.natural) s.terms.set(p, s.item.sequence, s.item.head, s.sequence.s_q, s.sequence.s_kv);
      s.dbias_unit = w.dbias_sum == nullptr ? 0 : exp2f(static_cast<float>(*w.dbias_exponent));
    }
    __syncthreads();
    const int row0 = s.item.m_block * Tile::rows, rows_left = s.sequence.s_q - row0;
    {
      const int64_t token = s.sequence.q_begin + row0;
      load_tile<Tile::rows, head_dim, Tile::threads>(ptx::shared_address(s.q),
                                                     row_at(p.q, s.sequence.batch, token, s.item.head), p.q.stride_s,
                                                     rows_left, p.d_qk, w.aligned != 0, threadIdx.x);
      load_tile<Tile::rows, head_dim, Tile::threads>(ptx::shared_address(s.dout),
                                                     row_at(p.dout, s.sequence.batch, token, s.item.head),
                                                     p.dout.stride_s, rows_left, p.d_v, w.aligned != 0, threadIdx.x);
    }
    if (p.band.present) {
      // Rows beyond the last one repeat it.
      const KeyRange mine = band_row(p.band, band_plane(p.band, s.item.sequence, s.item.head),
                                     min(row0 + warp_row + lane % 16, s.sequence.s_q - 1));
      const KeyBounds together = warp_bounds(bounds_of(mine));
      if (lane < 16) s.ranges[warp_row + lane] = mine;
      if (lane == 0) s.bounds[warp_row / 16] = together;
      __syncthreads();
    }
    if (threadIdx.x == 0) dq_open_steps<Tile>(s, p);
    __syncthreads();
    if (s.steps[0].key0 >= 0) dq_load_step<Tile>(s, s.steps[0].key0, 0, p, w);
    ptx::cp_async_commit();

    if (threadIdx.x < Tile::rows) {
      const int64_t place = s.item.head * p.stat_stride + s.sequence.batch * p.tokens_q + s.sequence.q_begin + row0;
      const bool inside = static_cast<int>(threadIdx.x) < rows_left;
      s.lse[threadIdx.x] = inside ? p.row_lse[place + threadIdx.x] : INFINITY;
      s.delta[threadIdx.x] = inside ? p.delta[place + threadIdx.x] : 0;
    }

    float dq[1][head_dim / 8][4] = {};  // dQ / scale
    for (int i = 0; s.steps[i & 3].key0 >= 0; ++i) {
      const int stage = i & 1, key0 = s.steps[i & 3].key0, keys_left = s.sequence.s_kv - key0;
      const int32_t bit_tile = s.steps[i & 3].bit_tile;
      ptx::cp_async_wait<0>();
      __syncthreads();
      if (s.steps[(i + 1) & 3].key0 >= 0) dq_load_step<Tile>(s, s.steps[(i + 1) & 3].key0, stage ^ 1, p, w);
      ptx::cp_async_commit();
      if (threadIdx.x == 0) dq_write_step<Tile>(s, (i + 2) & 3, p);

      uint32_t words[2] = {0xffffffffu, 0xffffffffu};
      const bool masked = bit_tile >= 0 || keys_left < Tile::keys;
      if (bit_tile >= 0 && p.band.present) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const KeyRange kept = s.ranges[warp_row + lane / 4 + 8 * h];
          words[h] = columns_between(kept.begin - key0, kept.end - key0, lane);
        }
      } else if (bit_tile >= 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
          words[h] = __ldg(p.plan.bit_units + int64_t{bit_tile} * (Tile::rows * 4) + (warp_row + lane / 4 + 8 * h) * 4 +
                           lane % 4) >>
                     (key0 % 128 / 4);
      }
      if (keys_left < Tile::keys) {
        const uint32_t inside = columns_below(keys_left, lane);
        words[0] &= inside, words[1] &= inside;
      }

      // S = Q K^T, dP = dO V^T
      float score[1][n_tiles][4] = {}, dp[1][n_tiles][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float delta = s.delta[warp_row + lane / 4 + i / 2 * 8];
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) dp[0][n][i] = -delta;
      }
      multiply_rows<T, head_dim>(score, ptx::shared_address(s.q) + row_offset, ptx::shared_address(s.k[stage]), lane);
      multiply_rows<T, head_dim>(dp, ptx::shared_address(s.dout) + row_offset, ptx::shared_address(s.v[stage]), lane);

      // P = exp2(c S - lse), 0 where the bit is 0; dS = P (dP - delta)
      const float lse[2] = {s.lse[warp_row + lane / 4], s.lse[warp_row + lane / 4 + 8]};
      if (w.natural) {
        const int row = row0 + warp_row + lane / 4, key = key0 + 2 * (lane % 4);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (warp_row + lane / 4 + 8 * h >= rows_left) words[h] = 0;
        }
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float ds = 0, slope = 0;
            if (words[i / 2] & (1u << (2 * n + i % 2)))
              ds = natural_probability(s.terms.score(p, score[0][n][i], row + i / 2 * 8, key + n * 8 + i % 2, slope),
                                       lse[i / 2], 0) *
                   dp[0][n][i];
            score[0][n][i] = ds;
            dp[0][n][i] = ds * slope;
          }
        }
        if (p.dbias.data != nullptr)
          dq_write_dbias(score[0], words, row, key, lane, s.item.sequence, s.item.head, s.dbias_unit, p, w);
      } else {
        const float c = p.softmax_scale * log2_e_f;
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) dp[0][n][i] *= ptx::exp2_approx(fmaf(score[0][n][i], c, -lse[i / 2]));
        }
        if (masked) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
              for (int e = 0; e < 2; ++e)
                dp[0][n][2 * h + e] = words[h] & (1u << (2 * n + e)) ? dp[0][n][2 * h + e] : 0;
            }
          }
        }
      }

      // dQ += dS K
      uint32_t packed[1][n_tiles / 2][4];
#pragma unroll
      for (int j = 0; j < n_tiles / 2; ++j) {
#pragma unroll
        for (int x = 0; x < 4; ++x)
          packed[0][j][x] = ptx::pack<T>(dp[0][2 * j + x / 2][x % 2 * 2], dp[0][2 * j + x / 2][x % 2 * 2 + 1]);
      }
      accumulate_rows<T, head_dim>(dq, packed, ptx::shared_address(s.k[stage]), lane);
    }

    const auto blocks = static_cast<int32_t>(gridDim.x);
    int32_t next = num_items;
    if (threadIdx.x == 0 && blocks < num_items) next = blocks + atomicAdd(p.work_counter, 1);

    // dQ over Q, each warp its own rows.
    ptx::cp_async_wait<0>();
    __syncthreads();
    const uint32_t tile = ptx::shared_address(s.q) + row_offset;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int n = 0; n < head_dim / 8; ++n)
        ptx::st_shared_4(tile + Swizzle<head_dim>::offset(h * 8 + lane / 4, n) + lane % 4 * 4,
                         ptx::pack<T>(dq[0][n][2 * h] * p.softmax_scale, dq[0][n][2 * h + 1] * p.softmax_scale));
    }
    __syncwarp();
    store_tile<16, head_dim>(row_at(p.dq, s.sequence.batch, s.sequence.q_begin + row0 + warp_row, s.item.head),
                             p.dq.stride_s, rows_left - warp_row, p.d_qk, w.aligned != 0, tile, lane);
    __syncthreads();
    if (threadIdx.x == 0) s.index = next;
    __syncthreads();
  }
}

}  // namespace anymask
