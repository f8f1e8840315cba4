// What configurations ask of a bound mask: found on the host in microseconds, without a plan.
#pragma once

#include <cstdint>

#include "mask/bound_mask.h"

namespace anymask {

inline constexpr int64_t long_row = 4000;  // keys

struct MaskFacts {
  bool groups_share_plane = false;  // the query heads of each kv head keep the same pairs
  // Keys of a row that stand in long stretches all of which it keeps, in the mean: about what a row keeps under
  // full, causal and shared_prefix, nothing under narrow windows and scattered blocks. From a sample; 0 where the mask
  // has an entry for each pair (bits, dense, threshold, topk: to look would take as long as the call), where its arrays
  // lie on the device, and where keys or rows are too few for it to matter, so that small calls do not pay.
  int64_t long_keys = 0;
};
// Query heads of each kv head: `group`.
MaskFacts mask_facts(const BoundMask& mask, int64_t group);

}  // namespace anymask
