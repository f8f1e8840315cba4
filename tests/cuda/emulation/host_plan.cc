#include "cuda/emulation/host_plan.h"

#include <algorithm>

#include "mask/bound_mask.h"
#include "plan/builder.h"

namespace anymask::emulation {
namespace {

// Bits 8 g + 2 c + j of 128 columns as bits 2 g + j.
uint32_t quarter(const uint64_t* row, size_t c) {
  uint32_t word = 0;
  for (size_t g = 0; g < 16; ++g) {
    const uint64_t pair = row[g / 8] >> (g % 8 * 8 + 2 * c) & 3;
    word |= static_cast<uint32_t>(pair) << (2 * g);
  }
  return word;
}

void add_bits(HostPlan& to, const TilePlan& plan, int32_t fold) {
  const auto rows = static_cast<size_t>(to.tile_m), tiles = plan.bit_tiles.size() / plan.words_per_tile();
  for (size_t tile = 0; tile < tiles; ++tile) {
    uint32_t kinds = 0;
    for (size_t unit = 0; unit < rows / 64; ++unit) {
      uint64_t any = 0, all = ~uint64_t{0};
      for (size_t r = unit * 64; r < unit * 64 + 64; ++r) {
        const uint64_t* row = &plan.bit_tiles[tile * plan.words_per_tile() + r / static_cast<size_t>(fold) * 2];
        for (size_t c = 0; c < 4; ++c) to.bit_units.push_back(quarter(row, c));
        any |= row[0] | row[1];
        all &= row[0] & row[1];
      }
      kinds |= (any == 0 ? 0u : all == ~uint64_t{0} ? 1u : 2u) << (2 * unit);
    }
    to.tile_kinds.push_back(kinds);
  }
}

// Where tile number `tile` of a row's runs is: its run and its n.
std::pair<int32_t, int32_t> place(const TilePlan& plan, int64_t run, int64_t tile) {
  for (;; ++run) {
    const Run& r = plan.runs[static_cast<size_t>(run)];
    if (tile < r.n_end - r.n_begin) return {static_cast<int32_t>(run), r.n_begin + static_cast<int32_t>(tile)};
    tile -= r.n_end - r.n_begin;
  }
}

void add_row(HostPlan& to, const TilePlan& plan, const int64_t* row, CudaItem item, int32_t pieces) {
  int64_t tiles = 0;
  for (int64_t r = row[0]; r < row[1]; ++r) {
    tiles += plan.runs[static_cast<size_t>(r)].n_end - plan.runs[static_cast<size_t>(r)].n_begin;
  }
  item.num_splits = static_cast<int32_t>(std::clamp<int64_t>(tiles, 1, pieces));
  item.run_begin = item.run_end = static_cast<int32_t>(row[0]);
  if (item.num_splits > 1) {
    item.partial = to.slots;
    to.slots += item.num_splits;
  }
  for (item.split = 0; item.split < item.num_splits; ++item.split) {
    if (tiles > 0) {
      std::tie(item.run_begin, item.n_begin) = place(plan, row[0], tiles * item.split / item.num_splits);
      std::tie(item.run_end, item.n_end) = place(plan, row[0], tiles * (item.split + 1) / item.num_splits - 1);
      ++item.run_end;
      ++item.n_end;
    }
    to.items.push_back(item);
  }
}

}  // namespace

HostPlan make_host_plan(const Mask& mask, const AttentionProblem& problem, const PlanShape& shape, int32_t pieces) {
  const int32_t tile_m = shape.tile_m, fold = shape.fold;
  const int64_t heads_of = shape.per_kv_head ? problem.group() : fold;  // an item
  const BoundMask bound = bind(mask, problem.sequences, problem.h_q, problem.h_kv);
  const TilePlan plan = build_plan(
      bound, {.tile_m = tile_m / fold, .tile_n = plan_tile_n, .transposed = shape.transposed, .split_cost = 0});
  HostPlan to;
  to.tile_m = tile_m;
  to.fold = fold_of(fold);
  to.runs = plan.runs;
  add_bits(to, plan, fold);
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    for (int64_t head = 0; head < problem.h_q / heads_of; ++head) {
      const PlanPlane& plane = plan.planes[static_cast<size_t>(plan.plane(static_cast<int64_t>(s), head * heads_of))];
      for (int32_t m = 0; m < plane.m_blocks; ++m) {
        CudaItem item{};
        item.sequence = static_cast<int32_t>(s);
        item.head = static_cast<int32_t>(head);
        item.m_block = m;
        add_row(to, plan, &plan.row_begin[static_cast<size_t>(plane.first_row + m)], item, pieces);
      }
    }
  }
  to.num_items = static_cast<int32_t>(to.items.size());
  return to;
}

}  // namespace anymask::emulation
