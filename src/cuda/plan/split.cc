#include "cuda/plan/split.h"

#include <algorithm>

#include "cuda/plan/capacity.h"
#include "cuda/plan/plan_data.h"

namespace anymask {

bool never_split(const BoundMask& mask, std::span<const PlaneUse> uses, int64_t items, const PlanShape& shape) {
  if (shape.parallelism <= 0) return true;
  int64_t least = item_cost * items;  // cost of all items
  int64_t longest = 0;                // tiles of a row
  for (size_t p = 0; p < uses.size(); ++p) {
    const BandCost cost = shape.transposed ? BandCost{} : band_cost(mask.planes[p], shape.tile_m / shape.fold);
    if (cost.known) least += full_cost * cost.full_tiles * uses[p].pairs;
    longest = std::max(longest, cost.known ? cost.longest : uses[p].n_tiles);
  }
  return partial_cost * longest <=
         std::max<int64_t>(2 * shortest_piece * full_cost, 2 * least / (most_cuts * int64_t{shape.parallelism}));
}

namespace {

struct RowTiles {
  int64_t full = 0, cut = 0;
  int64_t cost() const { return full_cost * full + partial_cost * cut; }
};

// Of rows [begin, end) of a band.
RowTiles tiles_of(const PlaneMask& plane, int64_t begin, int64_t end) {
  const Interval first = plane.interval(begin), last = plane.interval(end - 1);
  if (first.begin >= last.end) return {};
  const auto above = [](int64_t key) { return (key + plan_tile_n - 1) / plan_tile_n; };
  const int64_t touched_begin = first.begin / plan_tile_n, touched_end = above(last.end);
  const int64_t full_begin = std::max(above(last.begin), touched_begin);
  const int64_t full_end = std::min(first.end == plane.s_kv ? above(first.end) : first.end / plan_tile_n, touched_end);
  const int64_t full = std::max<int64_t>(full_end - full_begin, 0);
  return {full, touched_end - touched_begin - full};
}

int32_t best_cuts(const WholeWork& work) {
  int32_t best = 1;
  if (!work.may_cut()) return best;
  float least = work.time(1);
  for (int32_t cuts = 2; cuts <= max_cuts && work.allows(cuts); ++cuts) {
    const float time = work.time(cuts);
    if (time < least) least = time, best = cuts;
  }
  return best;
}

}  // namespace

std::vector<int32_t> band_pieces(const BoundMask& mask, std::span<const PlaneUse> uses, int64_t items,
                                 const PlanShape& shape) {
  std::vector<int32_t> pieces(mask.planes.size(), 1);
  if (shape.parallelism <= 0) return pieces;
  const int64_t tokens = shape.tile_m / shape.fold;
  std::vector<std::vector<RowTiles>> rows(mask.planes.size());
  WholeWork work{0, 0, static_cast<int32_t>(items), shape.parallelism};
  for (size_t p = 0; p < rows.size(); ++p) {
    const PlaneMask& plane = mask.planes[p];
    for (int64_t q = 0; q < plane.s_q; q += tokens) {
      const RowTiles row = tiles_of(plane, q, std::min(q + tokens, plane.s_q));
      work.total_cost += static_cast<uint64_t>(uses[p].pairs * (item_cost + row.cost()));
      work.max_cost = std::max(work.max_cost, static_cast<uint32_t>(row.cost()));
      rows[p].push_back(row);
    }
  }
  const CutLimit limit(work, best_cuts(work));
  for (size_t p = 0; p < rows.size(); ++p) {
    const auto of = [&limit](const RowTiles& row) {
      return limit.pieces(static_cast<uint64_t>(row.cost()), static_cast<int32_t>(row.full + row.cut));
    };
    for (size_t m = 0; m < rows[p].size(); ++m) {
      const int32_t here = of(rows[p][m]);
      pieces[p] = m == 0 || pieces[p] == here ? here : 0;
      if (pieces[p] == 0) break;
    }
  }
  return pieces;
}

}  // namespace anymask
