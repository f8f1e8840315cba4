#include "cuda/config/sm80_attention_fwd.h"

#include <algorithm>

#include "core/error.h"
#include "cuda/config/facts.h"

namespace anymask {
namespace {

bool reads_pairs(const Bias& b) {
  const auto pair = static_cast<uintptr_t>(2 * size_of(b.dtype));
  return b.stride_kv == 1 && b.stride_q % 2 == 0 && b.stride_h % 2 == 0 && b.stride_b % 2 == 0 &&
         reinterpret_cast<uintptr_t>(b.data) % pair == 0;
}

int32_t shape_for(int64_t d_qk, int64_t d_v) {
  const int32_t index = first_shape(sm80_forward_shapes, d_qk, d_v);
  if (index >= 0) return index;
  fail_unsupported("sm80_attention_fwd: head dims ", d_qk, " and ", d_v,
                   "; at most 256 each: split the heads, or use backend=\"cpu\"");
}

}  // namespace

Sm80ForwardConfig choose_sm80_attention_fwd(const AttentionProblem& problem, bool groups_share_plane, int32_t num_sms,
                                            int32_t shared_bytes) {
  Sm80ForwardConfig c;
  c.dtype = problem.dtype;
  c.modified = modifies_scores(problem);
  c.shape_index = shape_for(problem.d_qk, problem.d_v);
  c.shape = sm80_forward_shape(c.shape_index, c.modified);
  c.aligned =
      rows_aligned(problem.q) && rows_aligned(problem.k) && rows_aligned(problem.v) && rows_aligned(problem.out);
  c.bias_pairs = problem.bias.defined() && reads_pairs(problem.bias);

  // A multiprocessor has 1 KB more than a block may have, and every resident block takes 1 KB. As many blocks as
  // registers allow count more than a second stage.
  auto blocks = [&](int32_t stages) {
    return std::min(c.shape.blocks, (shared_bytes + 1024) / (c.shape.shared_bytes(stages) + 1024));
  };
  c.stages = blocks(2) >= blocks(1) ? 2 : 1;
  c.blocks_per_sm = std::max(blocks(c.stages), 1);
  c.shared_bytes = c.shape.shared_bytes(c.stages);

  // Modified scores belong to one head a tile.
  if (groups_share_plane && !c.modified) c.fold = choose_fold(problem, c.shape.tile_m(), sm80_forward_max_fold);
  const int64_t items = count_items(problem, c.shape.tile_m(), c.fold), slots = int64_t{num_sms} * c.blocks_per_sm;
  c.parallelism = may_split(problem, items, slots) ? static_cast<int32_t>(slots) : 0;
  c.grid = static_cast<int32_t>(std::clamp<int64_t>(c.parallelism ? slots : items, 1, slots));
  return c;
}

std::ostream& operator<<(std::ostream& out, const Sm80ForwardConfig& c) {
  out << "sm80_attention_fwd, " << name_of(c.dtype) << ", head dims up to " << c.shape.d_qk << " and " << c.shape.d_v
      << ", tile " << c.shape.tile_m() << " x 128 in steps of " << c.shape.keys << " keys, " << c.shape.warps
      << " warps of " << 16 * c.shape.m_tiles << " rows, " << c.stages << (c.stages == 1 ? " stage, " : " stages, ")
      << c.shared_bytes << " bytes of shared memory, " << c.grid << " blocks, " << c.blocks_per_sm
      << " a multiprocessor";
  if (c.fold > 1) out << ", " << c.fold << " query heads in a tile's rows";
  if (c.modified) out << ", modified scores" << (c.bias_pairs ? ", bias in pairs" : "");
  if (!c.aligned) out << ", unaligned: element by element";
  return out;
}

}  // namespace anymask
