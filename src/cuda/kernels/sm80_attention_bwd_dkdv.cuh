// dK and dV, and in one pass dQ: exact attention backward, key-stationary, for sm_80 and everything later.
//
//   S^T = K Q^T    P^T = exp2(c S^T - lse)    dP^T = V dO^T    dS^T = P^T (dP^T - delta)
//   dV += P^T dO   dK += dS^T Q               dQ += dS K       (dK, dQ times scale at the end)
//
// Inputs [batch, token, head, dim]; the plan is the transposed one, rows of `keys` keys, columns of 128 queries, or a
// band, of which each key's rows are computed here; row_lse and delta come from backward_delta. Outputs dk, dv (or fp32
// sums per query head) and sums of dQ.
//
// A block begins with the item (a row of key tiles of one head) of its own number and takes others from a counter. K
// and V of the item stay in shared memory; Q, dO and their facts stream through `stages` buffers of `queries` rows.
// Eight warps, in four pairs; a pair owns 16 * m_tiles keys. The first warp of a pair accumulates dV, the second dK:
//
//   warps 0..3    S^T          P^T  ->    dV += P^T dO     dQ of the step before, half of it
//   warps 4..7    the other half of that dQ   dP^T    -> dS^T    dK += dS^T Q
//
// So each accumulates one head_dim-wide result over 32 keys, whose fragments serve two rows of products each (with 16
// keys a warp, shared memory would bind: 128 B/clk against 2,600 FLOP/clk); P^T and dS^T are operands as they lie in
// registers; P^T crosses to the other warp of the pair in register order; and while one warp of a scheduler
// exponentiates, the other multiplies. dS^T is in shared memory for dQ alone, over the same bytes as P^T, twice
// buffered: dQ of a step runs in the next one. A step has one barrier for the block and one for each pair.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/threads.cuh"
#include "cuda/tile/backward_products.cuh"
#include "cuda/tile/backward_score.cuh"
#include "cuda/tile/backward_scratch.h"
#include "cuda/tile/backward_words.cuh"
#include "cuda/tile/band_rows.cuh"
#include "cuda/tile/copy_tile.cuh"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/mask_bits.cuh"
#include "cuda/tile/row_at.cuh"
#include "cuda/tile/run_cursor.cuh"
#include "cuda/tile/swizzle.cuh"

namespace anymask {

// A step of queries of one query head.
struct alignas(16) DkdvStep {
  int32_t query0, rows;  // rows: from query0 to the end; 0: there is no such step
  int32_t bit_tile;      // -1: FULL
  int32_t head;
};

// `small`: for devices that give a block less than 163 KB of shared memory.
template <class T_, int head_dim_, int m_tiles_, int queries_, int stages_, bool small_>
struct DkdvTile {
  using T = T_;
  static constexpr int head_dim = head_dim_, m_tiles = m_tiles_, queries = queries_, stages = stages_;
  static constexpr bool small = small_;
  static constexpr int threads = 256, keys = 64 * m_tiles;
  static constexpr int q_tiles = queries / 16;
  // On an SM: two where the accumulators of a thread, dV or dK and S^T, leave room for it.
  static constexpr int blocks = m_tiles * (head_dim + queries) / 2 <= 96 ? 2 : 1;
  // dQ: warps along queries and along head_dim, and each one's 16 x 8 tiles.
  static constexpr int dq_warps_m = queries == 128 ? 4 : queries == 64 ? (head_dim % 64 == 0 ? 2 : 4) : queries / 16;
  static constexpr int dq_warps_n = 8 / dq_warps_m;
  static constexpr int dq_m = queries / 16 / dq_warps_m, dq_n = head_dim / 8 / dq_warps_n;
  static_assert(dq_n % 2 == 0 && dq_m >= 1 && 128 % queries == 0);

  struct alignas(128) Shared {
    uint16_t k[keys * head_dim], v[keys * head_dim];  // dK and dV at the end
    uint16_t q[stages][queries * head_dim], dout[stages][queries * head_dim];
    uint32_t ds[2][keys * queries / 2];  // P^T in register order, then dS^T [keys][queries]
    float lse[stages][queries], delta[stages][queries];
    DkdvStep steps[4];
    ScoreTerms terms[4];
    RunCursor cursor;
    KeyBounds bounds[4];  // of a band: what each pair's keys need of the rows
    BandRuns runs;
    CudaItem item;
    CudaSequence sequence;
    // Where query 0 of head 0 begins, in elements.
    int64_t q_offset, dout_offset, stats_offset, dq_offset;
    int32_t head, head_end, index;  // query heads still to come; the item
    int32_t key0, keys_left;        // the item's first key, and keys from there to the end
  };
};

template <class Tile>
__device__ __forceinline__ void dkdv_start_head(typename Tile::Shared& s, const AttentionParams& p) {
  if (p.band.present) {
    s.cursor.start(s.runs);
  } else {
    s.cursor.start(s.item, p.plan.runs, s.sequence.s_q);
  }
}

// By one thread, two steps ahead of everyone.
template <class Tile>
__device__ __forceinline__ void dkdv_write_step(typename Tile::Shared& s, int slot, const AttentionParams& p,
                                                const BackwardScratch& w) {
  while (s.head < s.head_end && s.cursor.done()) {
    if (++s.head < s.head_end) dkdv_start_head<Tile>(s, p);
  }
  if (s.head >= s.head_end) {
    s.steps[slot].rows = 0;
    return;
  }
  s.steps[slot] = {s.cursor.key, s.sequence.s_q - s.cursor.key, s.cursor.full() ? -1 : s.cursor.bit_tile(), s.head};
  if (w.natural) s.terms[slot].set(p, s.item.sequence, s.head, s.sequence.s_q, s.sequence.s_kv);
  if (p.band.present) {
    s.cursor.advance(Tile::queries, s.runs);
  } else {
    s.cursor.advance(Tile::queries, s.item, p.plan.runs, s.sequence.s_q);
  }
}

// The first two steps of an item, by one thread, when a band's bounds are there.
template <class Tile>
__device__ __forceinline__ void dkdv_open_steps(typename Tile::Shared& s, const AttentionParams& p,
                                                const BackwardScratch& w) {
  if (p.band.present) {
    KeyBounds together = s.bounds[0];
#pragma unroll 1
    for (int pair = 1; pair < 4; ++pair) together.join(s.bounds[pair]);
    s.runs.set(together, Tile::queries, s.sequence.s_q);
  }
  dkdv_start_head<Tile>(s, p);
  dkdv_write_step<Tile>(s, 0, p, w);
  dkdv_write_step<Tile>(s, 1, p, w);
}

// An item, by one thread. Inlined, so that the parameters are read as constants and not as memory.
template <class Tile>
__device__ __forceinline__ void dkdv_open_item(typename Tile::Shared& s, const AttentionParams& p,
                                               const BackwardScratch& w) {
  s.item = item_of(p, s.index);
  s.sequence = sequence_of(p, s.item.sequence);
  // Items count kv heads where the kernel writes dk and dv, query heads where sums are kept.
  s.head = w.dk_sum == nullptr ? s.item.head * p.group : s.item.head;
  s.head_end = w.dk_sum == nullptr ? s.head + p.group : s.head + 1;
  s.key0 = s.item.m_block * Tile::keys;
  s.keys_left = s.sequence.s_kv - s.key0;
  s.q_offset = s.sequence.batch * p.q.stride_b + s.sequence.q_begin * p.q.stride_s;
  s.dout_offset = s.sequence.batch * p.dout.stride_b + s.sequence.q_begin * p.dout.stride_s;
  s.stats_offset = s.sequence.batch * p.tokens_q + s.sequence.q_begin;
  s.dq_offset = (s.stats_offset / 16 + s.item.sequence) * (16 * Tile::head_dim);
}

// Q and lse by warps 0..3, dO and delta by warps 4..7. Rows beyond the end have lse +inf: their P is 0.
template <class Tile>
__device__ __forceinline__ void dkdv_load_step(typename Tile::Shared& s, const DkdvStep& step, int stage, bool role_dk,
                                               const AttentionParams& p, const BackwardScratch& w) {
  const int thread = threadIdx.x % 128;
  const CudaTensor& t = role_dk ? p.dout : p.q;
  const auto* source = static_cast<const uint16_t*>(t.data) + (role_dk ? s.dout_offset : s.q_offset) +
                       step.query0 * t.stride_s + step.head * t.stride_h;
  load_tile<Tile::queries, Tile::head_dim, 128>(ptx::shared_address(role_dk ? s.dout[stage] : s.q[stage]), source,
                                                t.stride_s, step.rows, role_dk ? p.d_v : p.d_qk, w.aligned != 0,
                                                thread);
  if (thread < Tile::queries) {
    float* const to = (role_dk ? s.delta[stage] : s.lse[stage]) + thread;
    if (thread < step.rows) {
      const float* from = (role_dk ? p.delta : p.row_lse) + step.head * p.stat_stride + s.stats_offset + step.query0;
      ptx::cp_async_4(ptx::shared_address(to), from + thread, true);
    } else {
      *to = role_dk ? 0.f : INFINITY;
    }
  }
}

// dQ += dS K of one step, this warp's part.
template <class Tile>
__device__ __forceinline__ void dkdv_add_dq(const typename Tile::Shared& s, const DkdvStep& step, int buffer, int warp,
                                            int lane, const BackwardScratch& w) {
  const int m0 = warp / Tile::dq_warps_n * Tile::dq_m, n0 = warp % Tile::dq_warps_n * Tile::dq_n;
  float dq[Tile::dq_m][Tile::dq_n][4] = {};
  multiply_columns<typename Tile::T, Tile::keys, Tile::queries, Tile::head_dim>(
      dq, ptx::shared_address(s.ds[buffer]), m0 * 16, ptx::shared_address(s.k), n0 * 8, lane);
#pragma unroll
  for (int m = 0; m < Tile::dq_m; ++m) {
    if ((m0 + m) * 16 >= step.rows) continue;
    float* const to = w.dq_sum + step.head * w.dq_stride + s.dq_offset + step.query0 * Tile::head_dim +
                      ((m0 + m) * (Tile::head_dim / 8) + n0) * 128;
#pragma unroll
    for (int n = 0; n < Tile::dq_n; ++n) add_fragment(to + n * 128, dq[m][n], lane);
  }
}

// Bits of the warp's keys and this step's queries; keys beyond the end have none. `mine`: of a band, what rows keep key
// number lane % (16 * m_tiles) of the warp.
template <class Tile>
__device__ __forceinline__ void dkdv_load_words(uint32_t (&words)[Tile::m_tiles][2], const typename Tile::Shared& s,
                                                const DkdvStep& step, const KeyRange& mine, int first_key, int lane,
                                                const AttentionParams& p) {
#pragma unroll
  for (int m = 0; m < Tile::m_tiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = first_key + m * 16 + h * 8 + lane / 4;
      words[m][h] = key < s.keys_left ? 0xffffffffu : 0;
      if (step.bit_tile >= 0 && p.band.present) {
        const int begin = __shfl_sync(0xffffffffu, mine.begin, m * 16 + h * 8 + lane / 4) - step.query0;
        const int end = __shfl_sync(0xffffffffu, mine.end, m * 16 + h * 8 + lane / 4) - step.query0;
        uint32_t kept = columns_between(begin, end, lane);
        if (Tile::queries > 64) kept |= columns_between(begin - 64, end - 64, lane) << 16;
        words[m][h] &= kept;
      } else if (step.bit_tile >= 0) {
        words[m][h] &= __ldg(p.plan.bit_units + int64_t{step.bit_tile} * (Tile::keys * 4) + key * 4 + lane % 4) >>
                       (step.query0 % 128 / 4);
      }
    }
  }
}

// P^T = exp2(c S^T - lse), 0 where the bit is 0: as operand, and to the other warp of the pair in the same order.
template <class Tile>
__device__ __forceinline__ void dkdv_probabilities(uint32_t (&packed)[Tile::m_tiles][Tile::q_tiles][4],
                                                   const float (&score)[Tile::m_tiles][2 * Tile::q_tiles][4],
                                                   const typename Tile::Shared& s, const DkdvStep& step, int stage,
                                                   const KeyRange& mine, uint32_t to, int first_key, int lane,
                                                   const AttentionParams& p) {
  using T = typename Tile::T;
  const float* const lse = &s.lse[stage][2 * (lane % 4)];
  const float c = p.softmax_scale * log2_e_f;
  const auto exponentiate = [&](auto masked) {
    uint32_t words[Tile::m_tiles][2];
    if constexpr (decltype(masked)::value) dkdv_load_words<Tile>(words, s, step, mine, first_key, lane, p);
#pragma unroll
    for (int j = 0; j < Tile::q_tiles; ++j) {
      float2 base[2];
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        base[x] = *reinterpret_cast<const float2*>(lse + 8 * (2 * j + x));
        base[x].x = probability_shift<T> - base[x].x, base[x].y = probability_shift<T> - base[x].y;
      }
#pragma unroll
      for (int m = 0; m < Tile::m_tiles; ++m) {
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const float(&d)[4] = score[m][2 * j + x / 2];
          float low = ptx::exp2_approx(fmaf(d[x % 2 * 2], c, base[x / 2].x));
          float high = ptx::exp2_approx(fmaf(d[x % 2 * 2 + 1], c, base[x / 2].y));
          if constexpr (decltype(masked)::value) {
            low = words[m][x % 2] & (1u << (2 * (2 * j + x / 2))) ? low : 0;
            high = words[m][x % 2] & (2u << (2 * (2 * j + x / 2))) ? high : 0;
          }
          packed[m][j][x] = ptx::pack<T>(low, high);
        }
        ptx::st_shared_16(to + ((m * Tile::q_tiles + j) * 32 + lane) * 16, packed[m][j]);
      }
    }
  };
  if (step.bit_tile >= 0 || s.keys_left < Tile::keys) {
    exponentiate(std::true_type{});
  } else {
    exponentiate(std::false_type{});
  }
}

// The same with softcap, bias, ALiBi. What crosses is P^T times the softcap's slope: dS^T is made of it.
template <class Tile>
__device__ __forceinline__ void dkdv_natural_probabilities(uint32_t (&packed)[Tile::m_tiles][Tile::q_tiles][4],
                                                           const float (&score)[Tile::m_tiles][2 * Tile::q_tiles][4],
                                                           const typename Tile::Shared& s, int i, int stage,
                                                           const KeyRange& mine, uint32_t to, int first_key, int lane,
                                                           const AttentionParams& p) {
  using T = typename Tile::T;
  const DkdvStep& step = s.steps[i & 3];
  const ScoreTerms& terms = s.terms[i & 3];
  const float* const lse = &s.lse[stage][2 * (lane % 4)];
  uint32_t words[Tile::m_tiles][2];
  dkdv_load_words<Tile>(words, s, step, mine, first_key, lane, p);
#pragma unroll
  for (int j = 0; j < Tile::q_tiles; ++j) {
#pragma unroll
    for (int m = 0; m < Tile::m_tiles; ++m) {
      uint32_t crossing[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        float probability[2], slope[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = 8 * (2 * j + x / 2) + e, query = column + 2 * (lane % 4);
          probability[e] = 0, slope[e] = 0;
          if (words[m][x % 2] & (1u << (2 * (2 * j + x / 2) + e)) && query < step.rows) {
            const int key = s.key0 + first_key + m * 16 + x % 2 * 8 + lane / 4;
            probability[e] = natural_probability(
                terms.score(p, score[m][2 * j + x / 2][x % 2 * 2 + e], step.query0 + query, key, slope[e]), lse[column],
                probability_shift<T>);
          }
        }
        packed[m][j][x] = ptx::pack<T>(probability[0], probability[1]);
        crossing[x] = ptx::pack<T>(probability[0] * slope[0], probability[1] * slope[1]);
      }
      ptx::st_shared_16(to + ((m * Tile::q_tiles + j) * 32 + lane) * 16, crossing);
    }
  }
}

// dS^T = P^T (dP^T - delta): as operand, and for dQ over the bytes P^T came in, [keys][queries].
template <class Tile>
__device__ __forceinline__ void dkdv_gradients(uint32_t (&packed)[Tile::m_tiles][Tile::q_tiles][4],
                                               const float (&dp)[Tile::m_tiles][2 * Tile::q_tiles][4], uint32_t ds,
                                               int lane, bool store) {
  using T = typename Tile::T;
#pragma unroll
  for (int m = 0; m < Tile::m_tiles; ++m) {
#pragma unroll
    for (int j = 0; j < Tile::q_tiles; ++j) {
      uint32_t probability[4];
      ptx::ld_shared_16(probability, ds + ((m * Tile::q_tiles + j) * 32 + lane) * 16);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const float2 weight = unpack<T>(probability[x]);
        const float(&d)[4] = dp[m][2 * j + x / 2];
        packed[m][j][x] = ptx::pack<T>(weight.x * probability_unit<T> * d[x % 2 * 2],
                                       weight.y * probability_unit<T> * d[x % 2 * 2 + 1]);
      }
    }
  }
  if (!store) return;
  __syncwarp();  // P^T is read
  const uint32_t to = ds + Swizzle<Tile::queries>::offset(lane / 4, 0) + lane % 4 * 4;
#pragma unroll
  for (int m = 0; m < Tile::m_tiles; ++m) {
#pragma unroll
    for (int j = 0; j < Tile::q_tiles; ++j) {
#pragma unroll
      for (int x = 0; x < 4; ++x)
        ptx::st_shared_4(Swizzle<Tile::queries>::chunk(to, 2 * j + x / 2) + (m * 16 + x % 2 * 8) * Tile::queries * 2,
                         packed[m][j][x]);
    }
  }
}

template <class Tile>
__device__ __forceinline__ void dkdv_take_items(const AttentionParams& p, const BackwardScratch& w) {
  using T = typename Tile::T;
  constexpr int m_tiles = Tile::m_tiles, q_tiles = Tile::q_tiles, head_dim = Tile::head_dim;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& s = *reinterpret_cast<typename Tile::Shared*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = warp % 4;
  const bool role_dk = warp >= 4, one_pass = w.dq_sum != nullptr;
  const int first_key = pair * 16 * m_tiles;  // the pair's, in the tile
  const uint32_t row_offset = static_cast<uint32_t>(first_key * head_dim * 2);
  // The pair's P^T and dS^T in the first buffer.
  const uint32_t exchange = ptx::shared_address(s.ds[0]) + static_cast<uint32_t>(first_key * Tile::queries * 2);
  constexpr uint32_t buffer_bytes = sizeof(s.ds[0]);

  ptx::wait_for_previous();
  const int num_items = count_items(p);
  if (threadIdx.x == 0) s.index = static_cast<int32_t>(blockIdx.x);
  __syncthreads();
  while (s.index < num_items) {
    if (threadIdx.x == 0) dkdv_open_item<Tile>(s, p, w);
    __syncthreads();
    {
      const int kv_head = w.dk_sum == nullptr ? s.item.head : s.item.head / p.group;
      const CudaTensor& t = role_dk ? p.v : p.k;
      load_tile<Tile::keys, head_dim, 128>(
          ptx::shared_address(role_dk ? s.v : s.k), row_at(t, s.sequence.batch, s.sequence.kv_begin + s.key0, kv_head),
          t.stride_s, s.keys_left, role_dk ? p.d_v : p.d_qk, w.aligned != 0, threadIdx.x % 128);
    }
    KeyRange mine{0, 0};
    if (p.band.present) {
      // By those who will need it. Keys beyond the last one repeat it.
      if (!role_dk) {
        const int key = s.key0 + first_key + lane % (16 * m_tiles);
        mine = band_column(p.band, band_plane(p.band, s.item.sequence, s.item.head), min(key, s.sequence.s_kv - 1));
        const KeyBounds together = warp_bounds(bounds_of(mine));
        if (lane == 0) s.bounds[pair] = together;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) dkdv_open_steps<Tile>(s, p, w);
    __syncthreads();
    if (Tile::stages == 2 && s.steps[0].rows > 0) dkdv_load_step<Tile>(s, s.steps[0], 0, role_dk, p, w);
    ptx::cp_async_commit();

    float acc[m_tiles][head_dim / 8][4] = {};  // dV, or dK / scale
    int i = 0;
    for (; s.steps[i & 3].rows > 0; ++i) {
      const int stage = Tile::stages == 2 ? i & 1 : 0;
      if constexpr (Tile::stages == 2) {
        ptx::cp_async_wait<0>();
        __syncthreads();
        if (s.steps[(i + 1) & 3].rows > 0) dkdv_load_step<Tile>(s, s.steps[(i + 1) & 3], stage ^ 1, role_dk, p, w);
        ptx::cp_async_commit();
      } else {
        __syncthreads();
        dkdv_load_step<Tile>(s, s.steps[i & 3], 0, role_dk, p, w);
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        __syncthreads();
      }
      const DkdvStep& step = s.steps[i & 3];
      const uint32_t ds = exchange + (i & 1) * buffer_bytes;
      uint32_t packed[m_tiles][q_tiles][4];  // P^T, or dS^T
      if (role_dk) {
        if (one_pass && i > 0) dkdv_add_dq<Tile>(s, s.steps[(i - 1) & 3], (i - 1) & 1, warp, lane, w);
        // dP^T - delta = V dO^T - delta
        float dp[m_tiles][2 * q_tiles][4];
#pragma unroll
        for (int n = 0; n < 2 * q_tiles; ++n) {
          const float2 delta = *reinterpret_cast<const float2*>(&s.delta[stage][n * 8 + 2 * (lane % 4)]);
#pragma unroll
          for (int m = 0; m < m_tiles; ++m) dp[m][n][0] = dp[m][n][2] = -delta.x, dp[m][n][1] = dp[m][n][3] = -delta.y;
        }
        multiply_rows<T, head_dim>(dp, ptx::shared_address(s.v) + row_offset, ptx::shared_address(s.dout[stage]), lane);
        if (threadIdx.x == 128) dkdv_write_step<Tile>(s, (i + 2) & 3, p, w);  // here this warp would wait for P^T
        ptx::barrier_sync(1 + pair, 64);
        dkdv_gradients<Tile>(packed, dp, ds, lane, one_pass);
        // dK += dS^T Q
        accumulate_rows<T, head_dim>(acc, packed, ptx::shared_address(s.q[stage]), lane);
      } else {
        // S^T = K Q^T
        float score[m_tiles][2 * q_tiles][4] = {};
        multiply_rows<T, head_dim>(score, ptx::shared_address(s.k) + row_offset, ptx::shared_address(s.q[stage]), lane);
        if (w.natural) {
          dkdv_natural_probabilities<Tile>(packed, score, s, i, stage, mine, ds, first_key, lane, p);
        } else {
          dkdv_probabilities<Tile>(packed, score, s, step, stage, mine, ds, first_key, lane, p);
        }
        ptx::barrier_arrive(1 + pair, 64);
        // dV += P^T dO
        accumulate_rows<T, head_dim>(acc, packed, ptx::shared_address(s.dout[stage]), lane);
        if (one_pass && i > 0) dkdv_add_dq<Tile>(s, s.steps[(i - 1) & 3], (i - 1) & 1, warp, lane, w);
      }
    }
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (one_pass && i > 0) {
      dkdv_add_dq<Tile>(s, s.steps[(i - 1) & 3], (i - 1) & 1, warp, lane, w);
      __syncthreads();
    }

    const auto blocks = static_cast<int32_t>(gridDim.x);
    int32_t next = num_items;
    if (threadIdx.x == 0 && blocks < num_items) next = blocks + atomicAdd(p.work_counter, 1);

    // dV over V, dK over K, each warp its own rows; or fp32 sums.
    const float unit = role_dk ? p.softmax_scale : probability_unit<T>;
    const int rows = s.keys_left - first_key;
    const int64_t token = s.sequence.kv_begin + s.key0 + first_key;
    if (w.dk_sum != nullptr) {
      float* const to = (role_dk ? w.dk_sum : w.dv_sum) + s.item.head * w.kv_stride +
                        (s.sequence.batch * p.tokens_kv + token) * head_dim;
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = m * 16 + h * 8 + lane / 4;
          if (row >= rows) continue;
#pragma unroll
          for (int n = 0; n < head_dim / 8; ++n)
            *reinterpret_cast<float2*>(to + row * head_dim + n * 8 + 2 * (lane % 4)) = {acc[m][n][2 * h] * unit,
                                                                                        acc[m][n][2 * h + 1] * unit};
        }
      }
    } else {
      const uint32_t tile = ptx::shared_address(role_dk ? s.k : s.v) + row_offset;
      const uint32_t at = tile + Swizzle<head_dim>::offset(lane / 4, 0) + lane % 4 * 4;
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
          for (int n = 0; n < head_dim / 8; ++n)
            ptx::st_shared_4(Swizzle<head_dim>::chunk(at, n) + (m * 16 + h * 8) * head_dim * 2,
                             ptx::pack<T>(acc[m][n][2 * h] * unit, acc[m][n][2 * h + 1] * unit));
        }
      }
      __syncwarp();
      const CudaTensor& t = role_dk ? p.dk : p.dv;
      store_tile<16 * m_tiles, head_dim>(row_at(t, s.sequence.batch, token, s.item.head), t.stride_s, rows,
                                         role_dk ? p.d_qk : p.d_v, w.aligned != 0, tile, lane);
    }
    __syncthreads();
    if (threadIdx.x == 0) s.index = next;
    __syncthreads();
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks)
    sm80_attention_bwd_dkdv(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
#if __CUDA_ARCH__ >= 900
  // Code for 9.0 runs on 9.0 alone, where a block may have 227 KB. Later chips compile the PTX of 8.0.
  constexpr bool wanted = !Tile::small;
#else
  constexpr bool wanted = true;
#endif
  if constexpr (wanted) dkdv_take_items<Tile>(p, w);
}

}  // namespace anymask
