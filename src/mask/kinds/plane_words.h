// Digest of a mask that is its bits: of every word of the plane, so that layouts and spare bits do not tell equal
// planes apart. On a device, where they lie.
#pragma once

#include "mask/kind.h"
#include "mask/kinds/common.h"

namespace anymask {

template <class Kind>
void hash_plane(BoundLeaf& leaf, const TensorView& view) {
  if (view.device.kind != DeviceKind::cpu) {
    leaf.unread = true;
    add_place(leaf.hasher, view);
    return;
  }
  const int64_t rows = min_of(view.shape[0], leaf.args.s_q);
  const int64_t words = (leaf.args.s_kv + 63) / 64;
  std::vector<uint64_t> row(static_cast<size_t>(words));
  leaf.hasher.add(static_cast<uint64_t>(rows));
  for (int64_t q = 0; q < rows; ++q) {
    for (int64_t w = 0; w < words; ++w)
      row[w] = Kind::word(leaf.args, q, 64 * w) & bit_range(0, leaf.args.s_kv - 64 * w);
    leaf.hasher.add_words(row.data(), words);
  }
}

}  // namespace anymask
