// One tile of the backward: up to 256 keys (a chunk, which stays) by up to 64 query rows (which stream by). What the
// orchestration in backward.cc fills in and the vector code in backward_kernels.cc computes from.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace anymask::backward {

inline constexpr int64_t tile_queries = 64;  // rows of q a tile; one word of mask bits a key
inline constexpr int64_t max_chunk = 256;    // keys a tile at most
// Row stride of P / dS. An odd number of cache lines, as every stride here: a column of 64 rows then meets 64 different
// sets of the first-level cache instead of 4.
inline constexpr int64_t ld_p = max_chunk + 16;
inline constexpr int64_t max_panel = 32;  // keys of a panel on the widest target (two vectors)

// Row strides of q, dout, k, dk, dv: few, so that they become constants of the register tiles.
constexpr int64_t leading_dimension(int64_t d) { return d <= 64 ? 80 : d <= 128 ? 144 : 272; }

// The bias at (row 0, key 0) of the tile.
struct BiasTile {
  const void* data = nullptr;  // null: none
  DType dtype = DType::f32;
  int64_t stride_q = 0, stride_kv = 0;
};

enum class BiasGradient : uint8_t {
  none,
  store,    // each element has this one contributor
  add,      // fp32 memory that several heads or batch entries add to, in a fixed order
  columns,  // summed over rows: column_sums[key of the chunk]
};

struct BiasGradientTile {
  BiasGradient kind = BiasGradient::none;
  void* data = nullptr;  // store, add: element (row 0, key 0)
  DType dtype = DType::f32;
  int64_t stride_q = 0, stride_kv = 0;
  float* column_sums = nullptr;
};

// What one thread works on. All pointers are 64-byte aligned scratch of that thread, but dq, bits and the bias.
struct Tile {
  int64_t d_qk = 0, d_v = 0;
  int64_t ld_qk = 0, ld_v = 0;  // leading_dimension of either

  // The chunk.
  int64_t keys = 0;
  float* k = nullptr;             // [max_chunk, ld_qk]
  float* k_transposed = nullptr;  // panels [max_chunk / panel][d_qk][panel]
  float* v_transposed = nullptr;  // panels [max_chunk / panel][d_v][panel]
  float* dk = nullptr;            // [max_chunk, ld_qk]
  float* dv = nullptr;            // [max_chunk, ld_v]
  bool k_finite = true;           // else products that meet a masked pair step aside: 0 * NaN is NaN

  // The rows.
  int64_t rows = 0;
  float* q = nullptr;  // [tile_queries, ld_qk]
  float* score_q =
      nullptr;  // [tile_queries, ld_qk] q times score_factor, as the forward packs it: scores of the same bits
  float* dout = nullptr;    // [tile_queries, ld_v]
  float* lse = nullptr;     // [tile_queries] +inf for a row that keeps nothing, whose P is then 0
  float* delta = nullptr;   // [tile_queries] rowsum(dout o out) - dlse
  bool rows_finite = true;  // q and dout

  // Rows that come next, fetched into the second-level cache meanwhile; null: none.
  const void* next_q = nullptr;
  const void* next_dout = nullptr;
  int64_t next_rows = 0;
  int64_t next_q_stride = 0, next_dout_stride = 0;  // bytes
  int64_t next_q_bytes = 0, next_dout_bytes = 0;    // of a row

  // The pairs.
  const uint64_t* bits = nullptr;  // [max_chunk] bit i: row i keeps the key; null: all pairs are kept
  float scale = 1;                 // softmax scale
  float score_factor = 1;          // cpu/score_units.h
  bool natural = false;            // scores are in natural units, not in powers of two
  float cap = 0;                   // the softcap in those units; 0: none
  BiasTile bias;
  float alibi_slope = 0;       // in those units; 0: none
  int64_t alibi_distance = 0;  // position of row 0 minus key 0 of the chunk
  BiasGradientTile dbias;
  float* sink_weight =
      nullptr;          // [tile_queries] exp(sink - lse), the sink's probability; null: no gradient of sinks wanted
  double sink_sum = 0;  // grows by the sum over pairs of sink_weight P dP

  // Scratch.
  float* p = nullptr;            // [tile_queries, ld_p] P, then scale * dS
  float* dp = nullptr;           // [tile_queries, max_panel] dP of one panel, then dS before the softcap
  float* cap_slope = nullptr;    // [tile_queries, max_panel] derivative of the softcap
  float* addend = nullptr;       // [tile_queries, max_panel] the bias
  uint64_t* row_bits = nullptr;  // [max_chunk / 64, tile_queries] the bits, a row's keys together
  uint64_t* any = nullptr;       // [max_chunk / panel] rows that keep a key of the panel; all: that keep every one
  uint64_t* all = nullptr;

  // dQ: fp32, row 0.
  float* dq = nullptr;
  int64_t dq_stride = 0;
};

// The vector code, for one target.
struct Kernels {
  // to[i * ld + j] = x[i * stride + j] in fp32 for i < rows, j < d; zeros for i < padded and d <= j < ld rounded
  // panels. Rows whose skip[i] is +inf (skip may be null) are zeros and are not read. Returns whether all are finite.
  bool (*load_rows)(DType type, const void* x, int64_t stride, int64_t rows, int64_t d, int64_t padded,
                    const float* skip, float* to, int64_t ld);
  // X^T in panels, zeros from `rows` on up to the next panel.
  void (*pack_transposed)(DType type, const void* x, int64_t stride, int64_t rows, int64_t d, float* to);
  // x[i * stride + j] = from[i * ld + j], narrowed.
  void (*store_rows)(DType type, const float* from, int64_t ld, int64_t rows, int64_t d, void* x, int64_t stride);
  // delta[i] = sum over j of dout(i, j) * out(i, j).
  void (*row_dots)(DType type, const void* dout, int64_t dout_stride, const void* out, int64_t out_stride, int64_t rows,
                   int64_t d, float* delta);
  // S, P, dV, dP, dS, dK of one tile: adds to dk, dv and dbias, leaves scale * dS in p.
  void (*tile_keys)(Tile& tile);
  // dQ += scale * dS K of the same tile.
  void (*tile_dq)(Tile& tile);
  int panel = 0;  // keys of a panel
  int rows = 0;   // rows of a register tile
};

const Kernels& kernels();

}  // namespace anymask::backward
