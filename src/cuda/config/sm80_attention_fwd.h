// What sm80_attention_fwd decides on the host, from shapes, strides and a few facts of the device: printable, no CUDA.
#pragma once

#include <cstdint>
#include <ostream>

#include "core/problem.h"

namespace anymask {

// A compiled shape of the kernel. Head dims up to these, the rest is zeros in shared memory.
struct Sm80ForwardShape {
  int32_t d_qk, d_v;
  int32_t m_tiles;  // 16-row tiles a warp
  int32_t warps;
  int32_t keys;    // of a step
  int32_t blocks;  // that share a multiprocessor, as far as registers go
  // All weights of a step before the product with V, not between its instructions: 5% faster at d128 although it
  // spills 128 bytes (docs/notes/sm80.md, rung 8).
  bool weights_first = false;
  constexpr int32_t tile_m() const { return 16 * m_tiles * warps; }
  constexpr int32_t shared_bytes(int32_t stages) const {
    return 128 + 2 * (tile_m() * d_qk + stages * keys * (d_qk + d_v));
  }
};

// Ascending: the first one that holds both head dims is taken.
inline constexpr Sm80ForwardShape sm80_forward_shapes[] = {
    {.d_qk = 16, .d_v = 16, .m_tiles = 1, .warps = 4, .keys = 64, .blocks = 4},
    {.d_qk = 32, .d_v = 32, .m_tiles = 1, .warps = 4, .keys = 64, .blocks = 4},
    {.d_qk = 64, .d_v = 64, .m_tiles = 2, .warps = 4, .keys = 64, .blocks = 2},
    {.d_qk = 96, .d_v = 96, .m_tiles = 2, .warps = 4, .keys = 64, .blocks = 2},
    {.d_qk = 128, .d_v = 128, .m_tiles = 2, .warps = 4, .keys = 64, .blocks = 2, .weights_first = true},
    {.d_qk = 192, .d_v = 128, .m_tiles = 2, .warps = 4, .keys = 64, .blocks = 2},
    {.d_qk = 192, .d_v = 192, .m_tiles = 1, .warps = 4, .keys = 64, .blocks = 2},
    {.d_qk = 256, .d_v = 256, .m_tiles = 1, .warps = 4, .keys = 64, .blocks = 2},
};
inline constexpr int32_t sm80_forward_num_shapes = sizeof(sm80_forward_shapes) / sizeof(sm80_forward_shapes[0]);
// The shape as compiled for plain scores, or for those that are more than scaled products.
constexpr Sm80ForwardShape sm80_forward_shape(int32_t index, bool modified) {
  Sm80ForwardShape shape = sm80_forward_shapes[index];
  // Half the rows: a step's bias needs room beside the scores, and what it waits for is hidden by more warps.
  if (modified && shape.m_tiles == 2) {
    shape.m_tiles = 1;
    shape.blocks = shape.d_qk <= 64 ? 3 : 2;
    shape.weights_first = false;
  }
  return shape;
}

// Heads folded into a tile's rows: copies walk over 16 rows at a time, warps own 16 or 32.
inline constexpr int32_t sm80_forward_max_fold = 16;

struct Sm80ForwardConfig {
  DType dtype = DType::bf16;
  int32_t shape_index = 0;
  Sm80ForwardShape shape{};
  bool modified = false;    // softcap, bias, alibi, or a scale that is not positive
  bool aligned = true;      // q, k, v, out move 16 bytes at a time; else element by element
  bool bias_pairs = false;  // bias is read two keys at a time
  int32_t stages = 2;       // of K and V in shared memory
  int32_t shared_bytes = 0;
  int32_t blocks_per_sm = 1;
  int32_t grid = 1;         // blocks launched; they take items until none is left
  int32_t fold = 1;         // query heads of a group in the rows of one tile (cuda/fold.h)
  int32_t parallelism = 0;  // for the plan: blocks that long rows are split for; 0: rows stay whole
};
std::ostream& operator<<(std::ostream& out, const Sm80ForwardConfig& config);

// Whether the query heads of each kv head keep the same pairs; multiprocessors, and the shared memory one block may
// have (cudaDevAttrMaxSharedMemoryPerBlockOptin).
Sm80ForwardConfig choose_sm80_attention_fwd(const AttentionProblem& problem, bool groups_share_plane, int32_t num_sms,
                                            int32_t shared_bytes);

}  // namespace anymask
