// Lengths: from cu_seqlens, or from batch, s_q and s_kv, to the sequences a mask is bound to.
#pragma once

#include <cstdint>
#include <vector>

#include "anymask/anymask.h"
#include "core/problem.h"

namespace anymask {

// Limits that keep tile indices and counters in range with room to spare. Element counts have no such limit.
inline constexpr int64_t kMaxTokens = (int64_t{1} << 31) - 1;  // rows or keys of one sequence
inline constexpr int64_t kMaxSequences = int64_t{1} << 24;     // of one call
inline constexpr int64_t kMaxHeads = int64_t{1} << 16;
inline constexpr int64_t kMaxPlanes = int64_t{1} << 31;  // sequences times query heads

// The checks of a length or count itself.
void check_tokens(const char* operation, const char* name, int64_t value);
void check_sequences(const char* operation, int64_t count);

// offsets [n + 1] -> n sequences. `cu_kv` undefined: as cu_q. A total of -1 is not known; otherwise offsets must end
// there.
std::vector<Sequence> packed_sequences(const char* operation, const TensorView& cu_q, const TensorView& cu_kv,
                                       int64_t total_q, int64_t total_kv);

// Heads within their limit, and rows * keys, summed over all sequences and q heads, within 63 bits.
void check_counts(const char* operation, const std::vector<Sequence>& sequences, int64_t h_q);

struct Lengths {
  std::vector<Sequence> sequences;
  int64_t h_q = 1, h_kv = 1;
};
Lengths read_lengths(const char* operation, const anymask_lengths* lengths);

}  // namespace anymask
