// sm80_attention_fwd: exact attention over a tile plan, or a band, with mma.sync, for compute capability 8.0 and
// everything later.
//
//   S = Q K^T, scores, P = softmax(S), O = P V for the pairs the plan keeps; out and lse of each query row, or, where a
//   row of tiles is split, out and lse of this piece (kernels/combine.cuh merges them).
//
// Shapes: q, k [b, s, h, d_qk], v [b, s, h, d_v] in bf16 or fp16, any strides; d_qk and d_v multiples of 8, at most the
// shape's, the rest is zeros in shared memory. fp32 accumulation. The plan's tile is (16 * m_tiles * warps) x 128.
//
// A block takes items (a row of tiles of one query head, or of several folded into its rows, or a piece of it) until
// none is left: the first by its own number, further ones by tickets, longest first (tile/item_source.cuh). Each warp
// owns 16 * m_tiles query rows, their statistics and their O, in registers, and never exchanges anything with another
// warp; all warps share Q, K and V in shared memory.
//
// Steps of `keys` keys, ascending over the item's runs whatever their kind:
//
//   two stages:  wait K(i), V(i); barrier -> S = Q K(i)^T -> max; fetch K(i+1), V(i+1) between weights; O += P V(i)
//   one stage:   wait K(i); barrier; fetch V(i) -> S = Q K(i)^T; wait V(i); barrier -> max; fetch K(i+1); O += P V(i)
//
// One stage is half the memory: the host takes it where that lets more blocks share a multiprocessor.
//
// Masks: a FULL step reads none. A PARTIAL one reads one word a row and lane quarter before the product, to skip the
// step where the warp's rows keep nothing, and again after it. Of a band each lane holds the keys that one row of the
// warp keeps, and words are computed from those: bands and plans are compiled apart, the registers of one are not the
// other's. Steps that reach beyond s_kv clip. All steps run the same instructions on what is kept: the bits of the
// result do not depend on how a mask was spelled.
//
// 32 rows a warp (m_tiles 2) where O fits into registers: a fragment of K or V then feeds four products, and shared
// memory (128 bytes a clock) no longer outweighs the tensor cores. With 16 rows it does: 256 against 192 clocks a step
// of 64 keys at d = 128. Registers are the limit everywhere: what a step needs of its item lies in shared memory, and
// lane numbers are opaque so that the compiler does not keep a dozen sums of them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>
#include <cstddef>
#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/config/sm80_attention_fwd.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/band_rows.cuh"
#include "cuda/tile/copy_tile.cuh"
#include "cuda/tile/item_source.cuh"
#include "cuda/tile/mask_bits.cuh"
#include "cuda/tile/row_at.cuh"
#include "cuda/tile/run_cursor.cuh"
#include "cuda/tile/score.cuh"
#include "cuda/tile/softmax.cuh"
#include "cuda/tile/swizzle.cuh"

namespace anymask {

// Run-time choices of the host.
struct Sm80ForwardOptions {
  int32_t stages;      // 1 or 2
  int32_t aligned;     // q, k, v, out: addresses and strides are multiples of 16 bytes
  int32_t bias_pairs;  // neighbours along keys may be read as one aligned word
  float unit, slack;   // weights are exp2(unit * s - unit * m); how far above m a score may lie (tile/softmax.cuh)
};

// A shape as a type: nvcc 13.0 cannot name a kernel whose template argument is a struct.
template <int32_t index, bool modified_, bool bands_>
struct Sm80ForwardTraits {
  static constexpr bool modified = modified_, bands = bands_;  // bands: the mask is one, and there is no plan
  static constexpr Sm80ForwardShape shape = sm80_forward_shape(index, modified);
  static constexpr int d_qk = shape.d_qk, d_v = shape.d_v;
  static constexpr int m_tiles = shape.m_tiles, warps = shape.warps, threads = 32 * warps, blocks = shape.blocks;
  static constexpr int warp_rows = 16 * m_tiles, tile_m = warp_rows * warps;
  static constexpr int keys = shape.keys, n_tiles = keys / 8, k_steps = d_qk / 16, v_tiles = d_v / 8;
  static constexpr bool weights_first = shape.weights_first;
  static_assert(tile_m % 64 == 0 && plan_tile_n % keys == 0 && keys % 16 == 0 && keys <= 64);
  static_assert(d_v <= d_qk, "out leaves through the rows of Q");
};

// What every thread must know of the current item while it walks, kept in shared memory: registers are for O and S.
struct Sm80ForwardItem {
  const uint16_t* k;  // first key of the sequence, kv head
  const uint16_t* v;
  int32_t index, next;  // of the items
  int32_t token;        // first query of the tile
  int32_t s_q, s_kv;
  int32_t sequence, head;  // head: of the tile's first row
  int32_t slot;            // of this piece's results; -1: the row is whole
  BandRuns runs;           // of a band
};

template <class Traits>
struct alignas(128) Sm80ForwardShared {
  struct Stage {
    uint16_t k[Traits::keys * Traits::d_qk];
    uint16_t v[Traits::keys * Traits::d_v];
  };
  static constexpr int max_warps = 4;
  alignas(128) Sm80ForwardItem item;
  KeyBounds bounds[max_warps];                             // of each warp's rows of a band
  alignas(128) uint16_t q[Traits::tile_m * Traits::d_qk];  // at the end of an item each warp's rows hold its out
  Stage stages[2];                                         // one of them allocated with one stage
};

template <class T, class Traits>
__global__ void __launch_bounds__(Traits::threads, Traits::blocks)
    sm80_attention_fwd(const __grid_constant__ AttentionParams p, const __grid_constant__ Sm80ForwardOptions options) {
  constexpr bool modified = Traits::modified, bands = Traits::bands;
  constexpr int m_tiles = Traits::m_tiles, warp_rows = Traits::warp_rows, tile_m = Traits::tile_m;
  constexpr int threads = Traits::threads, keys = Traits::keys;
  constexpr int n_tiles = Traits::n_tiles, k_steps = Traits::k_steps, v_tiles = Traits::v_tiles;
  using Shared = Sm80ForwardShared<Traits>;
  using QkSwizzle = Swizzle<Traits::d_qk>;
  using VSwizzle = Swizzle<Traits::d_v>;
  static_assert(Traits::warps <= Shared::max_warps);
  static_assert(sizeof(Shared) - sizeof(typename Shared::Stage) <= 99 * 1024, "one stage fits every GPU since 8.0");

  extern __shared__ __align__(128) unsigned char memory[];
  auto& current = *reinterpret_cast<Sm80ForwardItem*>(memory);
  auto* const bounds = reinterpret_cast<KeyBounds*>(memory + offsetof(Shared, bounds));
  constexpr uint32_t stage_bytes = sizeof(typename Shared::Stage), v_in_stage = sizeof(Shared::Stage::k);
  const uint32_t shared = ptx::shared_address(memory);
  const uint32_t stages_shared = shared + offsetof(Shared, stages);

  const int thread = static_cast<int>(threadIdx.x);
  // ldmatrix: rows and halves of a 16 x 16 block of the warp's Q or of V, and of K, whose block is two 8-row tiles.
  const uint32_t warp_q = shared + offsetof(Shared, q) + thread / 32 * (warp_rows * QkSwizzle::row_bytes);
  const uint32_t q_at = warp_q + QkSwizzle::offset(thread % 16, thread / 16 % 2);
  const uint32_t v_lane = v_in_stage + VSwizzle::offset(thread % 16, thread / 16 % 2);
  const uint32_t k_lane = QkSwizzle::offset(thread % 8 + thread / 16 % 2 * 8, thread / 8 % 2);

  const bool two_stages = options.stages == 2, aligned = options.aligned != 0;

  ptx::wait_for_previous();
  const int num_items = count_items<bands>(p);
  if (thread == 0) open_tickets(p, num_items);

  for (int index = static_cast<int>(blockIdx.x); index < num_items;) {
    RunCursor next;
    KeyRange mine{0, 0};  // of a band: what row lane % warp_rows of the warp keeps
    bool has_rows;        // this warp
    {
      const CudaItem item = item_of<bands>(p, index);
      const CudaSequence sequence = sequence_of(p, item.sequence);
      const Fold fold = p.plan.fold;
      const int head = fold.first_head(item.head), token = item.m_block * fold.tokens(tile_m);
      const int s_q = sequence.s_q, s_kv = sequence.s_kv, num_rows = (s_q - token) * fold.heads();
      const int64_t batch = sequence.batch, q_begin = sequence.q_begin, kv_begin = sequence.kv_begin;
      // Q as soon as it is known where: its rows come from further away than keys, which other blocks have read.
      load_tile<tile_m, Traits::d_qk, threads>(shared + offsetof(Shared, q), row_at(p.q, batch, q_begin + token, head),
                                               {p.q.stride_s, p.q.stride_h, fold}, num_rows, p.d_qk, aligned, thread);
      BandRuns runs{};
      if constexpr (bands) {
        // Rows beyond the last one repeat it.
        const int row = token + fold.token(thread / 32 * warp_rows + thread % 32 % warp_rows);
        mine = band_row(p.band, band_plane(p.band, item.sequence, item.head), min(row, s_q - 1));
        KeyBounds together = warp_bounds(bounds_of(mine));
        if (thread % 32 == 0) bounds[thread / 32] = together;
        __syncthreads();
#pragma unroll 1
        for (int warp = 0; warp < Traits::warps; ++warp) together.join(bounds[warp]);
        together.clip(item.split, item.num_splits);
        runs.set(together, keys, s_kv);
        next.start(runs);
      } else {
        next.start(item, p.plan.runs, s_kv);
      }
      has_rows = thread / 32 * warp_rows < num_rows;
      const uint16_t* const k = row_at(p.k, batch, kv_begin, head / p.group);
      const uint16_t* const v = row_at(p.v, batch, kv_begin, head / p.group);
      if (!next.done()) {
        load_tile<keys, Traits::d_qk, threads>(stages_shared, k + next.key * p.k.stride_s, p.k.stride_s,
                                               s_kv - next.key, p.d_qk, aligned, thread);
        if (two_stages) {
          load_tile<keys, Traits::d_v, threads>(stages_shared + v_in_stage, v + next.key * p.v.stride_s, p.v.stride_s,
                                                s_kv - next.key, p.d_v, aligned, thread);
        }
        ptx::cp_async_commit();
      }
      // While those fly. Read from the first barrier on: the first step's, or this one where there is no step.
      if (thread == 0) {
        const int after = draw_ticket(p, num_items, index == static_cast<int>(blockIdx.x));
        const int slot = item.num_splits > 1 ? item.partial + item.split : -1;
        current = {k, v, index, after, token, s_q, s_kv, item.sequence, head, slot, runs};
      }
      if (next.done()) {
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        __syncthreads();
      }
    }

    OnlineSoftmax<m_tiles, !modified> rows;
    rows.reset();
    float o[m_tiles][v_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (int n = 0; n < v_tiles; ++n) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0;
    }

    bool more = !next.done();
    // The words of the warp's rows of the step at `key`, which lies in bit tile `bit_tile` or in a cut run of a band.
    auto words = [&](uint32_t(&word)[m_tiles][2], [[maybe_unused]] int bit_tile, int key) {
      const int me = opaque(thread);
      if constexpr (bands) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int row = 16 * m + 8 * h + me % 32 / 4;
            word[m][h] = columns_between(__shfl_sync(0xffffffffu, mine.begin, row) - key,
                                         __shfl_sync(0xffffffffu, mine.end, row) - key, me);
          }
        }
      } else {
        const uint32_t* at =
            p.plan.bit_units + int64_t{bit_tile} * (4 * tile_m) + (me / 32 * (4 * warp_rows) + me % 32);
        const uint32_t shift = static_cast<uint32_t>(key) % plan_tile_n / 4;
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) word[m][h] = __ldg(at + 64 * m + 32 * h) >> shift;
        }
      }
    };
    // Keys before this one begin a step of a FULL run that is not its last: a step without anything special. What
    // others need stands aside, behind one branch before the product and one after it: masks, the edge of the keys, a
    // new run, and everything of calls with one stage or unaligned tensors.
    const bool regular = has_rows && two_stages && aligned;
    auto plain_steps = [&] { return regular && next.full() ? next.key_end - keys : INT_MIN; };
    int plain_end = plain_steps();
    for (uint32_t stage = stages_shared; more;) {
      const int key = next.key;
      const bool rare = key >= plain_end;
      int bit_tile = -1;
      bool live = true;  // a warp whose rows keep nothing of the step skips it
      ptx::cp_async_wait<0>();
      __syncthreads();
      const uint32_t k_at = stage + k_lane, v_at = stage + v_lane;

      if (!rare) {
        next.key = key + keys;
      } else {
        bit_tile = next.full() ? -1 : next.bit_tile();
        if constexpr (bands) {
          next.advance(keys, current.runs);
        } else {
          next.advance(keys, p.plan.items[current.index], p.plan.runs, current.s_kv);
        }
        plain_end = plain_steps();
        more = !next.done();
        live = has_rows;
        if (bit_tile >= 0) {
          bool some = mine.begin < key + keys && mine.end > key;
          if constexpr (!bands) {
            // They are read again after the product: kept, they would be in its way.
            uint32_t word[m_tiles][2], any = 0;
            words(word, bit_tile, key);
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) any |= word[m][0] | word[m][1];
            some = (any & ((1u << keys / 4) - 1)) != 0;
          }
          live = live && __any_sync(0xffffffffu, some);
        }
        if (!two_stages) {
          load_tile<keys, Traits::d_v, threads>(stage + v_in_stage, current.v + key * p.v.stride_s, p.v.stride_s,
                                                current.s_kv - key, p.d_v, aligned, thread);
          ptx::cp_async_commit();
        }
      }
      if (two_stages) stage = 2 * stages_shared + stage_bytes - stage;

      // S = Q K^T, 16 columns of d at a time
      float s[m_tiles][n_tiles][4];
      if (live) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
          for (int n = 0; n < n_tiles; ++n) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
        }
        const uint32_t q_now = opaque(q_at);
#pragma unroll
        for (int c = 0; c < k_steps; ++c) {
          uint32_t q[m_tiles][4];
#pragma unroll
          for (int m = 0; m < m_tiles; ++m) {
            ptx::ldmatrix_x4(q[m], QkSwizzle::chunk(q_now, 2 * c) + m * 16 * QkSwizzle::row_bytes);
          }
#pragma unroll
          for (int n = 0; n < n_tiles; n += 2) {
            uint32_t b[4];
            ptx::ldmatrix_x4(b, QkSwizzle::chunk(k_at, 2 * c) + n * 8 * QkSwizzle::row_bytes);
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) {
              ptx::mma_16816<T>(s[m][n], q[m], b[0], b[1]);
              ptx::mma_16816<T>(s[m][n + 1], q[m], b[2], b[3]);
            }
          }
        }
      }

      // The next step's K, and with two stages its V, a copy at a time between other instructions.
      const bool copies_k = aligned && more, copies_v = copies_k && two_stages;
      TileCopy<keys, Traits::d_qk, threads> copy_k;
      TileCopy<keys, Traits::d_v, threads> copy_v;
      constexpr int copies = copy_k.copies + copy_v.copies;
      auto copy = [&](int begin, int end) {
#pragma unroll
        for (int i = begin; i < end; ++i) {
          if (i == 0) {
            const auto* k = reinterpret_cast<const uint16_t*>(ptx::ld_shared_8(shared + offsetof(Sm80ForwardItem, k)));
            const int left = ptx::ld_shared_4(shared + offsetof(Sm80ForwardItem, s_kv)) - next.key;
            const int64_t stride = opaque(p.k.stride_s);
            copy_k.start(stage, k + next.key * stride, stride, left, p.d_qk, opaque(thread), copies_k);
          }
          if (i == copy_k.copies) {
            const auto* v = reinterpret_cast<const uint16_t*>(ptx::ld_shared_8(shared + offsetof(Sm80ForwardItem, v)));
            const int left = ptx::ld_shared_4(shared + offsetof(Sm80ForwardItem, s_kv)) - next.key;
            const int64_t stride = opaque(p.v.stride_s);
            copy_v.start(stage + v_in_stage, v + next.key * stride, stride, left, p.d_v, opaque(thread), copies_v);
          }
          i < copy_k.copies ? copy_k.copy(i) : copy_v.copy(i - copy_k.copies);
        }
      };

      if (rare) {
        if (!two_stages) {
          ptx::cp_async_wait<0>();
          __syncthreads();
        }
        if (!aligned && more) {
          load_tile<keys, Traits::d_qk, threads>(stage, current.k + next.key * p.k.stride_s, p.k.stride_s,
                                                 current.s_kv - next.key, p.d_qk, false, thread);
          if (two_stages) {
            load_tile<keys, Traits::d_v, threads>(stage + v_in_stage, current.v + next.key * p.v.stride_s, p.v.stride_s,
                                                  current.s_kv - next.key, p.d_v, false, thread);
          }
        }
        if (!live) {
          copy(0, copies);
          ptx::cp_async_commit();
          continue;
        }
      }
      if constexpr (modified) {
        const int me = opaque(thread);
        ScoreModifiers modifiers;
        modifiers.start(p, current.sequence, current.head);
        modifiers.apply(s, p, options.bias_pairs != 0, current.token + me / 32 * warp_rows + me % 32 / 4, key,
                        current.s_q, current.s_kv, me % 32);
      }
      if (rare && (bit_tile >= 0 || key + keys > current.s_kv)) {
        // Bits end at the plane's edges; FULL tiles do not.
        uint32_t word[m_tiles][2];
        if (bit_tile >= 0) {
          words(word, bit_tile, key);
        } else {
#pragma unroll
          for (int m = 0; m < m_tiles; ++m) {
            word[m][0] = word[m][1] = columns_below(current.s_kv - key, opaque(thread));
          }
        }
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) apply_mask(s[m], h, word[m][h]);
        }
      }

      // m' = max(m, rowmax S), O = O * alpha, l = l * alpha
      rows.rise(s, o, options.unit, options.slack);

      // P = exp2(S - m'), l = l + rowsum P, O = O + P V, 16 keys at a time. Either all weights come first, which leaves
      // the product registers to read V ahead, or the weights of the next keys are made between the products of these.
      constexpr int c_steps = keys / 16, packs = 4 * m_tiles, v_pairs = v_tiles / 2;
      constexpr bool first = Traits::weights_first;
      float base[m_tiles][2];
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        base[m][0] = rows.base(m, 0, options.unit), base[m][1] = rows.base(m, 1, options.unit);
      }
      uint32_t a[first ? c_steps : 2][m_tiles][4], b[2][4];
      auto weigh = [&](int c, int j) {
        const int m = j / 4, i = j % 4, h = i % 2;
        const float low = rows.weight(s[m][2 * c + i / 2][2 * h], base[m][h], options.unit);
        const float high = rows.weight(s[m][2 * c + i / 2][2 * h + 1], base[m][h], options.unit);
        rows.sum[m][h] += low + high;
        a[first ? c : c % 2][m][i] = opaque(ptx::pack<T>(low, high));
      };
      auto read_v = [&](int i) {
        ptx::ldmatrix_x4_trans(b[i % 2],
                               VSwizzle::chunk(v_at, 2 * (i % v_pairs)) + i / v_pairs * 16 * VSwizzle::row_bytes);
      };
      if (!first) read_v(0);
      constexpr int slots = first ? c_steps * packs : packs;
#pragma unroll
      for (int j = 0; j < slots; ++j) {
        weigh(j / packs, j % packs);
        copy(j * copies / slots, (j + 1) * copies / slots);
      }
      ptx::cp_async_commit();
#pragma unroll
      for (int c = 0; c < c_steps; ++c) {
#pragma unroll
        for (int n = 0; n < v_pairs; ++n) {
          const int i = c * v_pairs + n;
          if (first) {
            read_v(i);
          } else if (i + 1 < c_steps * v_pairs) {
            read_v(i + 1);
          }
#pragma unroll
          for (int m = 0; m < m_tiles; ++m) {
            ptx::mma_16816<T>(o[m][2 * n], a[first ? c : c % 2][m], b[i % 2][0], b[i % 2][1]);
            ptx::mma_16816<T>(o[m][2 * n + 1], a[first ? c : c % 2][m], b[i % 2][2], b[i % 2][3]);
          }
          if (!first && c + 1 < c_steps) {
#pragma unroll
            for (int j = n * packs / v_pairs; j < (n + 1) * packs / v_pairs; ++j) weigh(c + 1, j);
          }
        }
      }
    }

    // out = O / l, lse = m + ln(l); a piece of a row leaves in fp32, without the sink.
    // Rows are counted in the tile.
    const CudaSequence sequence = sequence_of(p, current.sequence);
    const Fold fold = p.plan.fold;
    const int num_rows = (sequence.s_q - current.token) * fold.heads(), head = current.head;
    const int64_t token = sequence.q_begin + current.token;
    const int me = opaque(thread), lane = me % 32, warp_row = me / 32 * warp_rows;
    const bool piece = current.slot >= 0;
    const int64_t slot = int64_t{current.slot} * tile_m;
    // A lane of each quad ends one of the quad's rows: 16 m + 8 h + lane / 4 is ended by lane 2 m + h of the four.
    constexpr int quad_rows = 2 * m_tiles;
    const int ended = lane % quad_rows, row = warp_row + 8 * ended + lane / 4, row_head = head + fold.head(row);
    float sum = 0, reference = 0;
#pragma unroll
    for (int i = 0; i < quad_rows; ++i) {
      const float l = quad_sum(rows.sum[i / 2][i % 2]);
      if (i == ended) sum = l, reference = rows.reference[i / 2][i % 2];
    }
    if constexpr (!modified) reference *= p.softmax_scale;
    const float sink = !piece && p.sinks.data ? per_head(p.sinks, current.sequence, row_head) : -INFINITY;
    const RowEnd end = finish_row(reference, sum, sink);
    if (row < num_rows && lane % 4 < quad_rows) {
      if (piece) {
        p.partial_lse[slot + row] = end.lse;
      } else if (p.lse.data) {
        p.lse.data[sequence.batch * p.lse.stride_b + row_head * p.lse.stride_h +
                   (token + fold.token(row)) * p.lse.stride_q] = end.lse;
      }
    }
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float factor = __shfl_sync(0xffffffffu, end.factor, lane / 4 * 4 + 2 * m + h);
#pragma unroll
        for (int n = 0; n < v_tiles; ++n) o[m][n][2 * h] *= factor, o[m][n][2 * h + 1] *= factor;
      }
    }
    if (piece) {
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int at = warp_row + 16 * m + 8 * h + lane / 4;
          float* to = p.partial_out + (slot + at) * p.d_v + 2 * (lane % 4);
          const int columns = at < num_rows ? p.d_v : 0;
#pragma unroll
          for (int n = 0; n < v_tiles; ++n) {
            if (8 * n < columns) {
              *reinterpret_cast<float2*>(to + 8 * n) = make_float2(o[m][n][2 * h], o[m][n][2 * h + 1]);
            }
          }
        }
      }
    } else {
      const uint32_t to = warp_q + VSwizzle::offset(lane / 4, 0) + lane % 4 * 4;
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
        for (int n = 0; n < v_tiles; ++n) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            ptx::st_shared_4(VSwizzle::chunk(to, n) + (16 * m + 8 * h) * VSwizzle::row_bytes,
                             ptx::pack<T>(o[m][n][2 * h], o[m][n][2 * h + 1]));
          }
        }
      }
      __syncwarp();
      store_tile<warp_rows, Traits::d_v>(row_at(p.out, sequence.batch, token + fold.token(warp_row), head),
                                         {p.out.stride_s, p.out.stride_h, fold}, num_rows - warp_row, p.d_v, aligned,
                                         warp_q, lane);
    }
    __syncthreads();  // Q, K and V are free, the next item is known
    index = current.next;
    __syncthreads();  // before `current` is written again
  }
}

}  // namespace anymask
