// What the portable CUDA backward decides from shapes, options and the device, in one place and printable.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "core/problem.h"
#include "cuda/launch/kernel.h"

namespace anymask {

// What the kernels are compiled for, one of each head-dim class; `small` is for 99 KB of shared memory a block, other
// tiles take up to the 163 of an A100.
struct Sm80BwdTiles {
  int32_t keys, queries, stages;  // dK/dV: the tile, the queries of a step, their buffers
  int32_t dq_rows, dq_keys;       // dQ: the tile, the keys of a step
};
constexpr Sm80BwdTiles sm80_bwd_tiles(int32_t head_dim, bool small) {
  switch (head_dim) {
    case 32:
      return {128, 64, 2, 128, 64};
    case 64:
      return small ? Sm80BwdTiles{128, 64, 2, 128, 32} : Sm80BwdTiles{128, 128, 2, 128, 32};
    case 96:
      return small ? Sm80BwdTiles{64, 64, 2, 128, 64} : Sm80BwdTiles{128, 64, 2, 128, 64};
    case 128:
      return small ? Sm80BwdTiles{64, 32, 2, 128, 32} : Sm80BwdTiles{128, 64, 2, 128, 32};
    case 192:
      return small ? Sm80BwdTiles{64, 32, 1, 64, 32} : Sm80BwdTiles{64, 64, 2, 64, 32};
    default:
      return small ? Sm80BwdTiles{64, 16, 1, 64, 16} : Sm80BwdTiles{64, 64, 1, 64, 16};
  }
}

// sm80_attention_bwd_small: keys or queries of a block, blocks that share a multiprocessor, and up to how many tokens
// of a sequence it is worth (docs/notes/sm80.md, Backward): more where one wave of blocks is all there is.
inline constexpr int32_t sm80_bwd_small_rows = 64;
constexpr int32_t sm80_bwd_small_tokens(int32_t head_dim, bool one_wave) {
  if (!one_wave) return head_dim <= 64 ? 320 : 128;
  return head_dim <= 32 ? 512 : head_dim <= 64 ? 384 : 256;
}
constexpr int32_t sm80_bwd_small_blocks(int32_t head_dim) { return head_dim <= 32 ? 4 : head_dim <= 64 ? 3 : 2; }

struct Sm80AttentionBwdConfig {
  enum class Dbias : uint8_t { none, stored, summed };  // summed: broadcast over rows, heads or batch

  DType dtype = DType::bf16;
  int32_t head_dim = 128;  // both head dims rounded up to 32, 64, 96, 128, 192 or 256
  bool small_tiles = false;
  Sm80BwdTiles tiles{};

  // One pass adds dQ up by atomics: 5 products a tile. Two passes recompute S and dP in the second: 7 products, no
  // atomics, and dbias on the way.
  bool two_passes = false;
  // The heads of a group in one item of the dK/dV pass, dK and dV kept in registers; else one fp32 sum a query head.
  bool per_kv_head = true;
  bool aligned = true;   // 16-byte copies; else element by element
  bool natural = false;  // a softcap, a bias or ALiBi
  Dbias dbias = Dbias::none;
  int64_t dbias_shape[4] = {0, 0, 0, 0};

  // Short sequences in one launch; 0: these are none, else both head dims rounded up to 16, 32, 64 or 128. For masks
  // that are bands.
  int32_t small_head_dim = 0;
  int32_t small_key_blocks = 0, small_query_blocks = 0;  // of the longest sequence
  const char* why_not_small = "";

  const char* why_passes = "";
  const char* why_per_head = "";

  PlanShape dkdv_plan() const { return {.tile_m = tiles.keys, .transposed = true, .per_kv_head = per_kv_head}; }
  PlanShape small_plan() const { return {.tile_m = sm80_bwd_small_rows}; }
  PlanShape dq_plan() const { return {.tile_m = tiles.dq_rows, .transposed = false}; }  // wanted with two passes alone
  std::vector<Fact> facts() const;
  std::vector<Fact> small_facts() const;
};

// `group_shares_plane`: the query heads that share a kv head keep the same pairs.
Sm80AttentionBwdConfig choose_sm80_attention_bwd(const AttentionProblem& problem, const CudaDevice& device,
                                                 bool group_shares_plane);

}  // namespace anymask
