// The whole backward of short sequences in one launch: exact attention, row-stationary, for sm_80 and everything later.
//
//   blocks of keys      S^T = K Q^T   P^T = exp2(c S^T - lse)   dP^T = V dO^T   dV += P^T dO   dK += dS^T Q
//   blocks of queries   S = Q K^T     P = exp2(c S - lse)       dP = dO V^T     dQ += dS K
//                       dS = P (dP - delta)
//
// Seven products a tile where one pass takes five, but nothing is summed in memory: no zeros before, no conversion
// after, no atomics, the same bits each time. A block computes the facts of the rows that it meets, delta = rowsum(dout
// * out) - dlse, by itself. What short calls wait for is memory and one launch after another; this waits for each of
// them once.
//
// Inputs [batch, token, head, dim], a mask that is a band, plain scores. A block of four warps owns 64 rows, which are
// keys or queries; the other side passes through two buffers of `columns` rows. A warp owns 16 rows: nothing passes
// between warps, P and dS are the next products' operands as they lie in registers.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/config/sm80_attention_bwd.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/backward_products.cuh"
#include "cuda/tile/backward_words.cuh"
#include "cuda/tile/band_rows.cuh"
#include "cuda/tile/copy_tile.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/mask_bits.cuh"
#include "cuda/tile/row_at.cuh"
#include "cuda/tile/run_cursor.cuh"
#include "cuda/tile/swizzle.cuh"

namespace anymask {

template <class T_, int head_dim_>
struct SmallBwdTile {
  using T = T_;
  static constexpr int head_dim = head_dim_, threads = 128, warps = 4;
  static constexpr int rows = sm80_bwd_small_rows, max_tokens = sm80_bwd_small_tokens(head_dim, true);
  static constexpr int columns = head_dim <= 64 ? 64 : 32;
  static constexpr int blocks = sm80_bwd_small_blocks(head_dim);

  struct alignas(128) Shared {
    uint16_t fixed[2][rows * head_dim];          // K and V, or Q and dO; the gradients at the end
    uint16_t passing[2][2][columns * head_dim];  // [stage]: Q and dO, or K and V
    float lse[max_tokens], delta[max_tokens];    // of the queries that the block meets
    KeyBounds bounds[warps];
  };
};

__device__ __forceinline__ uint4 small_load_8(const uint16_t* from, bool aligned) {
  if (aligned) return *reinterpret_cast<const uint4*>(from);
  const auto word = [&](int i) { return from[2 * i] | uint32_t{from[2 * i + 1]} << 16; };
  return {word(0), word(1), word(2), word(3)};
}

// delta and row_lse of queries [begin, end) of a head, as backward_delta has them; beyond the last one P has to be 0.
// All loads of a round are on their way before the first is waited for.
template <class Tile>
__device__ __forceinline__ void small_row_facts(typename Tile::Shared& s, const AttentionParams& p,
                                                const CudaSequence& sequence, int head, int begin, int end,
                                                bool aligned) {
  using T = typename Tile::T;
  constexpr int chunks = Tile::head_dim / 8, lanes = chunks < 8 ? chunks : 8, own = chunks / lanes;
  constexpr int row_step = Tile::threads / lanes, rounds = own == 1 ? 4 : 2;
  const int part = threadIdx.x % lanes;
#pragma unroll 1
  for (int round = begin; round < end; round += row_step * rounds) {
    const int first = round + static_cast<int>(threadIdx.x) / lanes;
    uint4 dout[rounds][own], out[rounds][own];
    float lse[rounds], dlse[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      const int row = first + i * row_step;
      const bool valid = row < sequence.s_q && row < end;
      const int64_t token = sequence.q_begin + row;
      lse[i] = -INFINITY, dlse[i] = 0;
      if (valid) {
        lse[i] = p.lse.data[sequence.batch * p.lse.stride_b + head * p.lse.stride_h + token * p.lse.stride_q];
        if (p.dlse.data != nullptr)
          dlse[i] = p.dlse.data[sequence.batch * p.dlse.stride_b + head * p.dlse.stride_h + token * p.dlse.stride_q];
      }
#pragma unroll
      for (int c = 0; c < own; ++c) {
        const int d = (part + c * lanes) * 8;
        dout[i][c] = out[i][c] = {0, 0, 0, 0};
        if (valid && d < p.d_v) {
          dout[i][c] = small_load_8(row_at(p.dout, sequence.batch, token, head) + d, aligned);
          out[i][c] = small_load_8(row_at(p.out, sequence.batch, token, head) + d, aligned);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      float delta = 0;
#pragma unroll
      for (int c = 0; c < own; ++c) delta = add_products<T>(delta, dout[i][c], out[i][c]);
#pragma unroll
      for (int distance = lanes / 2; distance > 0; distance /= 2)
        delta += __shfl_xor_sync(0xffffffffu, delta, distance);
      const int row = first + i * row_step;
      if (part != 0 || row >= end) continue;
      s.delta[row - begin] = delta - dlse[i];
      s.lse[row - begin] = lse[i] == -INFINITY ? INFINITY : lse[i] * log2_e_f;
    }
  }
}

// 64 rows, number `block` of their side.
template <class Tile, bool of_keys>
__device__ __forceinline__ void small_rows(const AttentionParams& p, int block, bool aligned) {
  using T = typename Tile::T;
  constexpr int head_dim = Tile::head_dim, n_tiles = Tile::columns / 8, threads = Tile::threads;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& s = *reinterpret_cast<typename Tile::Shared*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_row = warp * 16, row0 = block * Tile::rows;
  const auto number = static_cast<int>(blockIdx.z);
  const CudaSequence sequence = sequence_of(p, number);
  const int rows = of_keys ? sequence.s_kv : sequence.s_q, columns = of_keys ? sequence.s_q : sequence.s_kv;
  const int64_t row_begin = (of_keys ? sequence.kv_begin : sequence.q_begin) + row0;
  const int64_t column_begin = of_keys ? sequence.q_begin : sequence.kv_begin;
  const auto own_head = static_cast<int>(blockIdx.y);
  if (row0 >= rows || (of_keys && own_head >= p.h_kv)) return;

  const uint32_t row_offset = static_cast<uint32_t>(first_row * head_dim * 2);
  const uint32_t fixed[2] = {ptx::shared_address(s.fixed[0]), ptx::shared_address(s.fixed[1])};
  {
    const CudaTensor &t0 = of_keys ? p.k : p.q, &t1 = of_keys ? p.v : p.dout;
    load_tile<Tile::rows, head_dim, threads>(fixed[0], row_at(t0, sequence.batch, row_begin, own_head), t0.stride_s,
                                             rows - row0, p.d_qk, aligned, threadIdx.x);
    load_tile<Tile::rows, head_dim, threads>(fixed[1], row_at(t1, sequence.batch, row_begin, own_head), t1.stride_s,
                                             rows - row0, p.d_v, aligned, threadIdx.x);
  }
  const auto load_step = [&](int column, int stage, int head) {
    const CudaTensor &t0 = of_keys ? p.q : p.k, &t1 = of_keys ? p.dout : p.v;
    load_tile<Tile::columns, head_dim, threads>(ptx::shared_address(s.passing[stage][0]),
                                                row_at(t0, sequence.batch, column_begin + column, head), t0.stride_s,
                                                columns - column, p.d_qk, aligned, threadIdx.x);
    load_tile<Tile::columns, head_dim, threads>(ptx::shared_address(s.passing[stage][1]),
                                                row_at(t1, sequence.batch, column_begin + column, head), t1.stride_s,
                                                columns - column, p.d_v, aligned, threadIdx.x);
  };

  float gradient[2][1][head_dim / 8][4] = {};  // dK / scale and dV, or dQ / scale
  const float c = p.softmax_scale * log2_e_f;
  const int heads = of_keys ? p.group : 1;
#pragma unroll 1
  for (int i = 0; i < heads; ++i) {
    const int head = own_head * heads + i, passing_head = of_keys ? head : head / p.group;
    // Rows beyond the last one repeat it.
    const int row = min(row0 + first_row + lane % 16, rows - 1), plane = band_plane(p.band, number, head);
    const KeyRange mine = of_keys ? band_column(p.band, plane, row) : band_row(p.band, plane, row);
    KeyBounds together = warp_bounds(bounds_of(mine));
    if (i > 0) __syncthreads();  // the head before is read
    if (lane == 0) s.bounds[warp] = together;
    __syncthreads();
#pragma unroll
    for (int other = 0; other < Tile::warps; ++other) together.join(s.bounds[other]);
    BandRuns runs;
    runs.set(together, Tile::columns, columns);
    int column = runs.at[0];
    if (column < runs.at[3]) load_step(column, 0, passing_head);
    ptx::cp_async_commit();
    const int facts = of_keys ? column : row0;  // the first query that has any
    const int facts_end =
        of_keys ? (runs.at[3] + Tile::columns - 1) / Tile::columns * Tile::columns : row0 + Tile::rows;
    small_row_facts<Tile>(s, p, sequence, head, facts, facts_end, aligned);

#pragma unroll 1
    for (int stage = 0; column < runs.at[3]; stage ^= 1, column += Tile::columns) {
      ptx::cp_async_wait<0>();
      __syncthreads();
      if (column + Tile::columns < runs.at[3]) load_step(column + Tile::columns, stage ^ 1, passing_head);
      ptx::cp_async_commit();
      // Queries beyond the end have P = 0; keys there need to be dropped.
      const bool partial = column < runs.at[1] || column >= runs.at[2];
      const bool masked = partial || (!of_keys && columns - column < Tile::columns);
      if (partial && !__any_sync(0xffffffffu, mine.begin < column + Tile::columns && mine.end > column)) continue;

      float score[1][n_tiles][4] = {}, dp[1][n_tiles][4];
      float base[of_keys ? n_tiles : 1][2];  // what is added to c S: of the lane's columns, or of its rows
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        if (of_keys || n == 0) {
#pragma unroll
          for (int e = 0; e < 2; ++e)
            base[n][e] = (of_keys ? probability_shift<T> : 0.f) -
                         s.lse[of_keys ? column - facts + n * 8 + 2 * (lane % 4) + e : first_row + lane / 4 + 8 * e];
        }
#pragma unroll
        for (int x = 0; x < 4; ++x)
          dp[0][n][x] =
              -s.delta[of_keys ? column - facts + n * 8 + 2 * (lane % 4) + x % 2 : first_row + lane / 4 + x / 2 * 8];
      }
      const uint32_t passing[2] = {ptx::shared_address(s.passing[stage][0]), ptx::shared_address(s.passing[stage][1])};
      multiply_rows<T, head_dim>(score, fixed[0] + row_offset, passing[0], lane);
      multiply_rows<T, head_dim>(dp, fixed[1] + row_offset, passing[1], lane);

      const auto weigh = [&](auto is_masked) {
        uint32_t words[2] = {};
        if constexpr (decltype(is_masked)::value) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            words[h] = partial ? columns_between(__shfl_sync(0xffffffffu, mine.begin, lane / 4 + 8 * h) - column,
                                                 __shfl_sync(0xffffffffu, mine.end, lane / 4 + 8 * h) - column, lane)
                               : columns_below(columns - column, lane);
          }
        }
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
          for (int x = 0; x < 4; ++x) {
            const float weight =
                ptx::exp2_approx(fmaf(score[0][n][x], c, base[of_keys ? n : 0][of_keys ? x % 2 : x / 2]));
            const float ds = (of_keys ? weight * probability_unit<T> : weight) * dp[0][n][x];
            const bool kept = !decltype(is_masked)::value || (words[x / 2] & (1u << (2 * n + x % 2))) != 0;
            score[0][n][x] = kept ? weight : 0;
            dp[0][n][x] = kept ? ds : 0;
          }
        }
      };
      if (masked) {
        weigh(std::true_type{});
      } else {
        weigh(std::false_type{});
      }
      uint32_t packed[1][n_tiles / 2][4];
      const auto pack = [&](const float(&from)[1][n_tiles][4]) {
#pragma unroll
        for (int j = 0; j < n_tiles / 2; ++j) {
#pragma unroll
          for (int x = 0; x < 4; ++x)
            packed[0][j][x] = ptx::pack<T>(from[0][2 * j + x / 2][x % 2 * 2], from[0][2 * j + x / 2][x % 2 * 2 + 1]);
        }
      };
      if (of_keys) {
        pack(score);
        accumulate_rows<T, head_dim>(gradient[1], packed, passing[1], lane);
      }
      pack(dp);
      accumulate_rows<T, head_dim>(gradient[0], packed, passing[0], lane);
    }
  }

  // Gradients over what they belong to, each warp its own rows.
  ptx::cp_async_wait<0>();
  __syncthreads();
#pragma unroll
  for (int which = 0; which < (of_keys ? 2 : 1); ++which) {
    const float unit = which == 0 ? p.softmax_scale : probability_unit<T>;
    const uint32_t tile = fixed[which] + row_offset, at = tile + Swizzle<head_dim>::offset(lane / 4, 0) + lane % 4 * 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int n = 0; n < head_dim / 8; ++n)
        ptx::st_shared_4(Swizzle<head_dim>::chunk(at, n) + h * 8 * head_dim * 2,
                         ptx::pack<T>(gradient[which][0][n][2 * h] * unit, gradient[which][0][n][2 * h + 1] * unit));
    }
    __syncwarp();
    const CudaTensor& t = of_keys ? (which == 0 ? p.dk : p.dv) : p.dq;
    store_tile<16, head_dim>(row_at(t, sequence.batch, row_begin + first_row, own_head), t.stride_s,
                             rows - row0 - first_row, which == 0 ? p.d_qk : p.d_v, aligned, tile, lane);
  }
}

// grid [blocks of keys, then of queries, of the longest sequence][h_q][sequences]
template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks)
    sm80_attention_bwd_small(const __grid_constant__ AttentionParams p, int32_t key_blocks, int32_t aligned) {
  ptx::wait_for_previous();
  const auto block = static_cast<int>(blockIdx.x);
  if (block < key_blocks) {
    small_rows<Tile, true>(p, block, aligned != 0);
  } else {
    small_rows<Tile, false>(p, block - key_blocks, aligned != 0);
  }
}

}  // namespace anymask
