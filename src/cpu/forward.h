// The CPU forward between its scheduler (forward_schedule.cc, plain C++) and its vector code (forward.cc, once per
// target).
//
// A *block* is up to 64 rows: tokens of one query head, or all tokens of several heads that share a kv head and a mask
// plane. A *tile* is 64 keys. A block's tiles are visited in key order, in chunks: S = Q K^T, masked; running maximum
// and sum; O = alpha O + P V.
#pragma once

#include <cstdint>
#include <vector>

#include "core/problem.h"
#include "cpu/config.h"
#include "cpu/scratch.h"
#include "plan/tile_source.h"

namespace anymask {

// Row i of a block: head + i / tokens, token + i % tokens.
struct RowBlock {
  int64_t sequence = 0, kv_head = 0;
  int64_t head = 0, heads = 1;
  int64_t token = 0, tokens = 0;
  int64_t rows() const { return heads * tokens; }
};

// A tile a block visits: its words (row t of the block's tokens: words[t]), or null when every pair inside the plane is
// kept.
struct KeyTile {
  int32_t n_block = 0;
  const uint64_t* words = nullptr;
};

// K and V of a kv head in panels, tile n at index n - first_tile; null pointers: the block packs what it visits.
struct PackedHead {
  void* k = nullptr;
  void* v = nullptr;
  int32_t first_tile = 0;
};

// What a piece of a split block leaves for the merge: O before division, running maximum (base 2) and sum of each row.
struct PartialRows {
  float* o = nullptr;    // [rows][d_v]
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
};

struct BlockTask {
  const AttentionProblem* problem = nullptr;
  RowBlock block;
  const KeyTile* tiles = nullptr;
  int64_t num_tiles = 0;
  PackedHead packed;
  PartialRows partial;  // o null: results go to out and lse
  bool bf16_dot = false;
};

// A thread's memory, kept between calls: under 1.5 MB.
struct ForwardScratch {
  Scratch q, s, o, k, v;
  TileRow row;
  std::vector<KeyTile> tiles;
  std::vector<PartialRows> pieces;
};

// Elements of a packed tile (of 4 bytes, or 2 with bf16_dot) for this target.
struct TileElements {
  int64_t k = 0, v = 0;
};

struct ForwardKernels {
  int rows, columns;  // the register tile, for explain
  TileElements (*tile_elements)(int64_t d_qk, int64_t d_v);
  // Packs tile n_block of a kv head to k and v.
  void (*pack_tile)(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head, int32_t n_block,
                    bool bf16_dot, void* k, void* v);
  void (*compute_block)(const BlockTask& task, ForwardScratch& scratch);
  // Merges `pieces` partial results of a block, in order, into out and lse.
  void (*merge)(const BlockTask& task, const PartialRows* pieces, int64_t num_pieces);
};

// Those of the target in force.
const ForwardKernels& forward_kernels();

// The forward of a whole problem.
void cpu_forward(const AttentionProblem& problem, const Mask& mask);

}  // namespace anymask
