#include "cpu/config.h"

#include <algorithm>

#include "core/error.h"
#include "cpu/targets.h"

namespace anymask {
namespace {

// bf16 pairs are loaded as 32-bit words: rows must start at even distances and the tensors at 4 bytes.
bool holds_pairs(const Tensor4& t) {
  return t.stride_s % 2 == 0 && t.stride_h % 2 == 0 && t.stride_b % 2 == 0 &&
         reinterpret_cast<uintptr_t>(t.data) % 4 == 0;
}

}  // namespace

ForwardConfig choose_forward(const AttentionProblem& problem) {
  ForwardConfig config;
  // Few rows: a tile of bits need not be taller than they are.
  const int64_t rows = std::clamp<int64_t>((problem.max_s_q + 11) / 12 * 12, 12, max_block_rows);
  config.tile_m = static_cast<int32_t>(rows);
  config.tile_n = static_cast<int32_t>(tile_keys);
  config.bf16_dot = problem.dtype == DType::bf16 && use_bf16_dot() && holds_pairs(problem.q) && holds_pairs(problem.k);
  return config;
}

void ForwardConfig::choose_splits(int64_t num_blocks) {
  // Few blocks leave threads idle: about 32 pieces serve any machine this library meets, and a piece of 16 tiles (1,024
  // keys) outweighs its merge a hundred times.
  blocks = num_blocks;
  max_splits = num_blocks == 0 || num_blocks >= 32 ? 1 : (32 + num_blocks - 1) / num_blocks;
}

std::vector<Fact> ForwardConfig::facts() const {
  return {
      {"tile", cat(tile_m, " x ", tile_n)},
      {"products", bf16_dot ? "bf16 pairs, summed in fp32" : "fp32"},
      {"row blocks", cat(blocks)},
      {"splits", max_splits == 1 ? std::string("none")
                                 : cat("up to ", max_splits, " a row block, of at least ", min_split_tiles, " tiles")}};
}

}  // namespace anymask
