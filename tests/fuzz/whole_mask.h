// What must hold of any mask, wherever it came from: its serialised form reads back equal, and where it binds, its
// elements are as many as it counts. A violation traps.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "anymask/anymask.h"

namespace anymask::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline void check_whole(anymask_mask_t mask) {
  uint8_t* bytes = nullptr;
  size_t size = 0;
  require(anymask_mask_to_bytes(mask, &bytes, &size) == ANYMASK_OK);
  anymask_mask_t read = nullptr;
  require(anymask_mask_from_bytes(bytes, size, &read) == ANYMASK_OK);
  anymask_free(bytes);
  int32_t equal = 0;
  require(anymask_mask_equal(mask, read, &equal) == ANYMASK_OK && equal);
  anymask_mask_free(read);

  constexpr int64_t lengths_tried[][2] = {{8, 8}, {5, 70}, {70, 3}, {0, 4}};
  for (const auto& [s_q, s_kv] : lengths_tried) {
    anymask_lengths lengths{};
    lengths.struct_size = sizeof lengths;
    lengths.batch = 1;
    lengths.s_q = s_q;
    lengths.s_kv = s_kv;
    lengths.h_q = lengths.h_kv = 1;
    int64_t kept = 0, pairs = 0;
    if (anymask_mask_count(mask, &lengths, &kept, &pairs) != ANYMASK_OK) continue;  // does not fit these lengths
    require(pairs == s_q * s_kv);
    uint8_t elements[70 * 8] = {};
    int64_t shape[2] = {s_q, s_kv};
    DLTensor out{};
    out.data = elements;
    out.device = {kDLCPU, 0};
    out.ndim = 2;
    out.dtype = {kDLUInt, 8, 1};
    out.shape = shape;
    require(anymask_mask_dense(mask, &lengths, 0, 0, 0, 0, &out) == ANYMASK_OK);
    for (int64_t i = 0; i < pairs; ++i) kept -= elements[i];
    require(kept == 0);
  }
}

}  // namespace anymask::fuzz
