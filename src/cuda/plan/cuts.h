// Into how many pieces rows of tiles are cut: the same answer on the host, for bands, and on the device, for plans.
#pragma once

#include <cmath>
#include <cstdint>

#include "mask/leaf.h"

namespace anymask {

// Costs in tenths of a tile: what a cut tile and an item's first and last steps add (docs/notes/plan_on_device.md);
// what it adds to an item that it is a piece, and to all work that there are pieces: waiting for the last of them, and
// each block's share of reading them.
inline constexpr uint32_t full_cost = 10, partial_cost = 11, item_cost = 15;
inline constexpr uint32_t piece_cost = 10, merge_cost = 20, read_piece_cost = 13;
// Pieces of a cut row have so many tiles at least; and no more than so many times `blocks` are added.
inline constexpr uint32_t shortest_piece = 4, most_cuts = 4;
inline constexpr int32_t max_cuts = 512;  // of one row

// All work of a call, before any row is cut.
struct WholeWork {
  uint64_t total_cost;  // of all items
  uint32_t max_cost;    // of a row of tiles
  int32_t items;
  int32_t blocks;  // that run at once; 0: rows stay whole

  ANYMASK_HOST_DEVICE bool may_cut() const { return blocks > 0 && max_cost >= 2 * shortest_piece * full_cost; }

  // Whether the costliest row may be cut into so many pieces, 2 or more: if not, then not into more either.
  ANYMASK_HOST_DEVICE bool allows(int32_t cuts) const {
    const auto k = static_cast<float>(cuts), row = static_cast<float>(max_cost);
    return static_cast<float>(total_cost) * k <= most_cuts * static_cast<float>(blocks) * row &&
           row >= shortest_piece * full_cost * k;
  }

  // How long everything takes when the costliest row is cut into `cuts` pieces and the others in proportion. Rows of
  // about one cost fill the multiprocessors wave by wave; of many costs, the short ones fill the gaps.
  ANYMASK_HOST_DEVICE float time(int32_t cuts) const {
    const auto total = static_cast<float>(total_cost), row = static_cast<float>(max_cost);
    const auto k = static_cast<float>(cuts);
    const float costliest = row + item_cost, pieces = total / costliest * k / static_cast<float>(blocks);  // a block
    const bool alike = total > .75f * costliest * static_cast<float>(items);
    const float waves = alike ? ceilf(pieces) : fmaxf(pieces, 1);
    const float piece = row / k + item_cost;
    return cuts == 1 ? waves * piece : waves * (piece + piece_cost) + merge_cost + pieces * read_piece_cost;
  }
};

// How rows are cut, once it is known into how many pieces the costliest is.
struct CutLimit {
  uint64_t cost;  // of a piece at most, nearly

  ANYMASK_HOST_DEVICE CutLimit(const WholeWork& work, int32_t cuts)
      : cost(cuts == 1 ? ~uint64_t{0} : (work.max_cost - 1) / static_cast<uint32_t>(cuts) + 1) {}
  ANYMASK_HOST_DEVICE int32_t pieces(uint64_t row, int32_t tiles) const {
    if (row <= cost) return 1;
    const auto wanted = static_cast<int64_t>((row + cost - 1) / cost), most = int64_t{tiles} / shortest_piece;
    const int64_t pieces = wanted < most ? wanted : most;
    return pieces > 1 ? static_cast<int32_t>(pieces) : 1;
  }
};

}  // namespace anymask
