#include "cuda/plan/capacity.h"

#include <algorithm>

#include "cuda/plan/plan_data.h"
#include "mask/kinds/blocks.h"
#include "mask/kinds/interval_table.h"
#include "mask/kinds/tree.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

constexpr int64_t walk_from = 1024;  // tiles along both sides from which ends of bands are followed

int64_t blocks(int64_t length, int64_t tile) { return (length + tile - 1) / tile; }

// Tiles by queries and keys, whichever of them are rows of tiles.
struct Tiling {
  int64_t s_q, s_kv, tile_q, tile_kv;
  bool transposed;
  int64_t num_q = blocks(s_q, tile_q), num_kv = blocks(s_kv, tile_kv);
  int64_t rows() const { return transposed ? num_kv : num_q; }
  int64_t cols() const { return transposed ? num_q : num_kv; }
  int64_t all() const { return num_q * num_kv; }
  int64_t both() const { return num_q + num_kv; }
};

// Of one leaf: tiles it leaves mixed, and changes between EMPTY and FULL from one tile of a row to the next.
struct Bound {
  int64_t mixed, changes;
};

// Tiles of size `tile` that [low, high] cuts: some end lies strictly inside, or beyond the tile for some and before it
// for others.
int64_t cut_tiles(int64_t low, int64_t high, int64_t tile) { return low > high ? 0 : blocks(high, tile) - low / tile; }

// The ends of the first and last row of a row of tiles say which tiles are mixed.
template <class IntervalOf>
int64_t mixed_of_band(const Tiling& t, IntervalOf&& interval) {
  if (t.both() <= walk_from) return std::min(2 * t.both(), t.all());
  int64_t mixed = 0;
  for (int64_t q = 0; q < t.s_q; q += t.tile_q) {
    const Interval first = interval(q), last = interval(std::min(q + t.tile_q, t.s_q) - 1);
    if (first.begin >= last.end) continue;
    const int64_t begins = cut_tiles(first.begin, last.begin, t.tile_kv);
    const int64_t ends = first.end == t.s_kv ? 0 : cut_tiles(first.end, last.end, t.tile_kv);
    mixed += std::min(begins + ends, cut_tiles(first.begin, last.end, t.tile_kv));
  }
  return mixed;
}

// Lines of a table, a tile of them at a time, against tiles along the other side.
int64_t mixed_of_intervals(const LeafArgs& a, int64_t lines, int64_t line_tile, int64_t extent, int64_t tile) {
  const int64_t n = a.ints[0];
  const auto* heaps = static_cast<const IntervalBounds*>(a.data[2]);
  int64_t mixed = 0;
  for (int64_t line = 0; line < lines; line += line_tile) {
    const int64_t line_end = a.ints[1] == 1 ? 1 : std::min(line + line_tile, lines);
    int64_t here = 0;
    for (int64_t i = 0; i < n; ++i) {
      IntervalBounds b = IntervalTable::nothing();
      const IntervalBounds* leaves = heaps + i * 2 * a.ints[2] + a.ints[2];
      for (int64_t at = a.ints[1] == 1 ? 0 : line / IntervalTable::block; at * IntervalTable::block < line_end; ++at) {
        b = IntervalTable::join(b, leaves[at]);
      }
      if (b.min_begin >= b.max_end) continue;
      const int64_t begins = cut_tiles(b.min_begin, b.max_begin, tile);
      const int64_t ends = b.min_end == extent ? 0 : cut_tiles(b.min_end, b.max_end, tile);
      here += std::min(begins + ends, cut_tiles(b.min_begin, b.max_end, tile));
    }
    mixed += std::min(here, blocks(extent, tile));
  }
  return mixed;
}

Bound bound_of(const BoundLeaf& leaf, const Tiling& t) {
  const LeafArgs& a = leaf.args;
  if (leaf.ops->interval != nullptr && leaf.unread) return {2 * t.both(), 2 * t.rows()};
  if (leaf.ops->interval != nullptr) {
    return {mixed_of_band(t, [&leaf](int64_t q) { return leaf.ops->interval(leaf.args, q); }), 2 * t.rows()};
  }
  switch (a.op) {
    case Op::shared_prefix:
      return {3 * t.both(), 3 * t.rows()};
    case Op::block_diffusion:
      return {5 * t.both() + 16, 6 * t.rows()};
    case Op::tree: {  // edges of the context and of the tree; below them nodes see earlier ones alone
      const int64_t rows = std::min(t.num_q, a.ints[1] / t.tile_q + 2), cols = a.ints[1] / t.tile_kv + 2;
      const int64_t nodes = rows * std::min(t.num_kv, cols) / 2 + rows + cols;
      return {3 * t.both() + nodes, 3 * t.rows() + nodes};
    }
    case Op::blocks: {
      const int64_t map_rows = (t.tile_q - 1) / a.ints[0] + 2, words = (t.tile_kv - 1) / a.ints[1] / 64 + 2;
      if (map_rows * words > Blocks::sketch_words) return {t.all(), t.all()};
      const int64_t edges_q = a.ints[0] % t.tile_q == 0 ? 0 : std::min(t.num_q, blocks(t.s_q, a.ints[0]));
      const int64_t edges_kv = a.ints[1] % t.tile_kv == 0 ? 0 : std::min(t.num_kv, blocks(t.s_kv, a.ints[1]));
      return {edges_q * t.num_kv + edges_kv * t.num_q,
              t.rows() * (t.transposed ? blocks(t.s_q, a.ints[0]) : blocks(t.s_kv, a.ints[1]))};
    }
    case Op::row_intervals:
      if (leaf.unread) return {t.all(), t.all()};
      return {mixed_of_intervals(a, t.s_q, t.tile_q, t.s_kv, t.tile_kv),
              t.transposed ? t.all() : 2 * a.ints[0] * t.rows()};
    case Op::col_intervals:
      if (leaf.unread) return {t.all(), t.all()};
      return {mixed_of_intervals(a, t.s_kv, t.tile_kv, t.s_q, t.tile_q),
              t.transposed ? 2 * a.ints[0] * t.rows() : t.all()};
    case Op::neighborhood: {  // no key farther than a whole kernel along every axis
      int64_t reach = 0, stride = 1;
      for (int axis = 2; axis >= 0; --axis) {
        reach += std::min(a.ints[4 + axis] * a.ints[7 + axis], a.ints[1 + axis]) * stride;
        stride *= a.ints[1 + axis];
      }
      const int64_t tile_m = t.transposed ? t.tile_kv : t.tile_q;
      const int64_t near = t.rows() * ((tile_m + 2 * reach) / plan_tile_n + 2) + 2 * t.both();
      return {near, near};
    }
    default:
      return {t.all(), t.all()};
  }
}

}  // namespace

PlanCapacity plan_capacity(const PlaneMask& plane, int32_t tile_m, bool transposed) {
  const Tiling t{plane.s_q, plane.s_kv, transposed ? plan_tile_n : tile_m, transposed ? tile_m : plan_tile_n,
                 transposed};
  Bound sum{0, 0};
  if (plane.is_band() && plane.unread()) {
    sum = {2 * t.both(), 2 * t.rows()};
  } else if (plane.is_band()) {
    sum = {mixed_of_band(t, [&plane](int64_t q) { return plane.interval(q); }), 2 * t.rows()};
  } else {
    for (const auto& leaf : plane.code().leaves) {
      const Bound bound = bound_of(*leaf, t);
      sum.mixed = std::min(sum.mixed + bound.mixed, t.all());
      sum.changes = std::min(sum.changes + bound.changes, t.all());
    }
  }
  return {std::min(sum.mixed, t.all()), std::min(t.rows() + 2 * sum.mixed + sum.changes, t.all())};
}

BandCost band_cost(const PlaneMask& plane, int32_t tile_m) {
  constexpr int64_t max_rows = 256;
  BandCost cost;
  cost.known = plane.is_band() && !plane.unread() && blocks(plane.s_q, tile_m) <= max_rows;
  if (!cost.known) return cost;
  for (int64_t q = 0; q < plane.s_q; q += tile_m) {
    const Interval first = plane.interval(q), last = plane.interval(std::min(q + tile_m, plane.s_q) - 1);
    if (first.begin >= last.end) continue;
    cost.full_tiles += std::max<int64_t>(0, first.end / plan_tile_n - blocks(last.begin, plan_tile_n));
    cost.longest = std::max(cost.longest, cut_tiles(first.begin, last.end, plan_tile_n));
  }
  return cost;
}

}  // namespace anymask
