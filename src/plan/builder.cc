#include "plan/builder.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/interrupt.h"
#include "plan/balance.h"
#include "plan/bit_pool.h"
#include "plan/descend.h"
#include "plan/tile_bits.h"

namespace anymask {
namespace {

// A stretch of one row of tiles after the descent: kept whole, or still to be looked at.
struct Stretch {
  int32_t n_begin, n_end;
  bool full;
};

void append(std::vector<Stretch>& row, int32_t n_begin, int32_t n_end, bool full) {
  if (!row.empty() && row.back().n_end == n_begin && row.back().full == full) {
    row.back().n_end = n_end;
  } else {
    row.push_back({n_begin, n_end, full});
  }
}

// Builds the planes of a plan one after the other.
class Builder {
 public:
  Builder(const PlanRequest& request, TilePlan& plan) : request_(request), plan_(plan), pool_(plan.words_per_tile()) {
    plan_.row_begin.push_back(0);
    tile_.resize(plan_.words_per_tile());
  }

  // Appends the plane and returns its number, or that of an equal one already there.
  int32_t add(const PlaneMask& plane) {
    const Grid grid = make_grid(plane, request_);
    PlanPlane out;
    out.rows = grid.rows;
    out.cols = grid.cols;
    out.m_blocks = grid.m_blocks;
    out.n_blocks = grid.n_blocks;
    out.first_row = static_cast<int64_t>(plan_.row_begin.size()) - 1;

    TileBits bits(plane, grid);
    for (int32_t m = 0; m < grid.m_blocks; m += stripe) {
      const int32_t m_end = static_cast<int32_t>(std::min<int64_t>(int64_t{m} + stripe, grid.m_blocks));
      for (std::vector<Stretch>& row : rows_) row.clear();
      if (grid.n_blocks > 0) {
        descend(
            plane, grid, {m, m_end, 0, grid.n_blocks},
            [&](const TileRect& t) {
              for (int32_t i = t.m_begin; i < t.m_end; ++i) append(rows_[i - m], t.n_begin, t.n_end, true);
            },
            [&](const TileRect& t) { append(rows_[t.m_begin - m], t.n_begin, t.n_end, false); });
      }
      for (int32_t i = m; i < m_end; ++i) {
        poll_interrupt();
        finish_row(grid, i, rows_[i - m], bits, out);
        plan_.row_begin.push_back(static_cast<int64_t>(plan_.runs.size()));
      }
    }
    return deduplicate(out);
  }

  std::vector<uint64_t> take_bits() { return pool_.take(); }

 private:
  static constexpr int32_t stripe = 64;  // rows of tiles descended together

  // Evaluates what is still mixed and appends the row's runs.
  void finish_row(const Grid& grid, int32_t m_block, const std::vector<Stretch>& row, TileBits& bits,
                  PlanPlane& plane) {
    const size_t row_begin = plan_.runs.size();
    for (const Stretch& stretch : row) {
      if (stretch.full) {
        append_full(row_begin, stretch.n_begin, stretch.n_end);
        plane.full_tiles += stretch.n_end - stretch.n_begin;
        plane.kept_pairs += grid.pairs({m_block, m_block + 1, stretch.n_begin, stretch.n_end});
        continue;
      }
      for (int32_t n = stretch.n_begin; n < stretch.n_end;) {
        const int32_t n_end = n + std::min(bits.tiles_at_once(), stretch.n_end - n);
        bits.evaluate(m_block, n, n_end);
        for (; n < n_end; ++n) {
          bits.tile(n, tile_.data());
          const int64_t kept = count_ones(tile_.data(), tile_.size());
          plane.kept_pairs += kept;
          if (kept == 0) continue;
          if (kept == grid.pairs({m_block, m_block + 1, n, n + 1})) {
            append_full(row_begin, n, n + 1);
            ++plane.full_tiles;
          } else {
            append_partial(row_begin, n, pool_.intern(tile_.data()));
            ++plane.partial_tiles;
          }
        }
      }
    }
  }

  // The last run of the row if it ends where tile n begins.
  Run* neighbour(size_t row_begin, int32_t n) {
    return plan_.runs.size() > row_begin && plan_.runs.back().n_end == n ? &plan_.runs.back() : nullptr;
  }

  void append_full(size_t row_begin, int32_t n_begin, int32_t n_end) {
    Run* last = neighbour(row_begin, n_begin);
    if (last != nullptr && last->kind == RunKind::full) {
      last->n_end = n_end;
    } else {
      plan_.runs.push_back({n_begin, n_end, RunKind::full, 0});
    }
  }

  void append_partial(size_t row_begin, int32_t n, int32_t bits) {
    Run* last = neighbour(row_begin, n);
    if (last != nullptr && last->kind != RunKind::full) {
      const int32_t length = last->n_end - last->n_begin;
      if (last->bits == bits && (length == 1 || last->kind == RunKind::partial_same)) {
        last->kind = RunKind::partial_same;
        last->n_end = n + 1;
        return;
      }
      if (last->kind == RunKind::partial && int64_t{last->bits} + length == bits) {
        last->n_end = n + 1;
        return;
      }
    }
    plan_.runs.push_back({n, n + 1, RunKind::partial, bits});
  }

  // Bit tiles are shared over the whole plan, so planes are equal exactly where their runs are.
  int32_t deduplicate(const PlanPlane& plane) {
    const auto same_rows = [&](const PlanPlane& a, const PlanPlane& b) {
      const int64_t *rows_a = plan_.row_begin.data() + a.first_row, *rows_b = plan_.row_begin.data() + b.first_row;
      for (int64_t m = 0; m < a.m_blocks; ++m) {
        if (!std::equal(plan_.runs.begin() + rows_a[m], plan_.runs.begin() + rows_a[m + 1],
                        plan_.runs.begin() + rows_b[m], plan_.runs.begin() + rows_b[m + 1])) {
          return false;
        }
      }
      return true;
    };
    const int64_t first_run = plan_.row_begin[static_cast<size_t>(plane.first_row)];
    const auto num_runs = plan_.runs.size() - static_cast<size_t>(first_run);
    const std::string_view run_bytes(reinterpret_cast<const char*>(plan_.runs.data() + first_run),
                                     num_runs * sizeof(Run));
    const size_t key = std::hash<std::string_view>{}(run_bytes) ^ (static_cast<size_t>(plane.rows) << 32) ^
                       static_cast<size_t>(plane.cols);
    const auto [begin, end] = by_content_.equal_range(key);
    for (auto at = begin; at != end; ++at) {
      const PlanPlane& other = plan_.planes[static_cast<size_t>(at->second)];
      if (other.rows != plane.rows || other.cols != plane.cols || !same_rows(other, plane)) continue;
      plan_.runs.resize(static_cast<size_t>(first_run));
      plan_.row_begin.resize(static_cast<size_t>(plane.first_row) + 1);
      return at->second;
    }
    const auto number = static_cast<int32_t>(plan_.planes.size());
    by_content_.emplace(key, number);
    plan_.planes.push_back(plane);
    return number;
  }

  const PlanRequest request_;
  TilePlan& plan_;
  BitPool pool_;
  std::vector<uint64_t> tile_;
  std::vector<Stretch> rows_[stripe];
  std::unordered_multimap<size_t, int32_t> by_content_;
};

// heads 1 where every sequence uses one plane for all of them.
void collapse_heads(TilePlan& plan) {
  const auto heads = static_cast<size_t>(plan.heads);
  for (size_t i = 0; i < plan.plane_of.size(); ++i) {
    if (plan.plane_of[i] != plan.plane_of[i / heads * heads]) return;
  }
  for (size_t i = 0; i < plan.plane_of.size() / heads; ++i) plan.plane_of[i] = plan.plane_of[i * heads];
  plan.plane_of.resize(plan.plane_of.size() / heads);
  plan.heads = 1;
}

std::vector<WorkItem> work_of(const TilePlan& plan, float split_cost) {
  const auto runs_of = [&plan](const PlanPlane& plane, int32_t m_block) {
    const int64_t* row = plan.row_begin.data() + plane.first_row + m_block;
    return std::span(plan.runs.data() + row[0], static_cast<size_t>(row[1] - row[0]));
  };
  std::vector<RowCost> rows;
  rows.reserve(plan.row_begin.size() - 1);
  for (size_t p = 0; p < plan.planes.size(); ++p) {
    for (int32_t m = 0; m < plan.planes[p].m_blocks; ++m) {
      int64_t tiles = 0;
      for (const Run& run : runs_of(plan.planes[p], m)) tiles += run.n_end - run.n_begin;
      rows.push_back({static_cast<int32_t>(p), m, tiles});
    }
  }
  std::vector<WorkItem> items = balance(rows, split_cost);
  for (WorkItem& item : items) locate(runs_of(plan.planes[static_cast<size_t>(item.plane)], item.m_block), item);
  return items;
}

template <class T>
int64_t bytes_of(const std::vector<T>& v) {
  return static_cast<int64_t>(v.size() * sizeof(T));
}

PlanStats stats_of(const TilePlan& plan) {
  PlanStats stats;
  for (const int32_t p : plan.plane_of) {
    const PlanPlane& plane = plan.planes[static_cast<size_t>(p)];
    const int64_t tiles = int64_t{plane.m_blocks} * plane.n_blocks;
    if (__builtin_add_overflow(stats.pairs, plane.rows * plane.cols, &stats.pairs)) {
      fail_invalid("plan: the pairs of ", plan.plane_of.size(),
                   " sequences and mask heads are more than 64 bits count: plan fewer of them at a time");
    }
    stats.kept_pairs += plane.kept_pairs;
    stats.full_tiles += plane.full_tiles;
    stats.partial_tiles += plane.partial_tiles;
    stats.empty_tiles += tiles - plane.full_tiles - plane.partial_tiles;
  }
  stats.bytes = static_cast<int64_t>(sizeof(TilePlan)) + bytes_of(plan.planes) + bytes_of(plan.plane_of) +
                bytes_of(plan.row_begin) + bytes_of(plan.runs) + bytes_of(plan.bit_tiles) + bytes_of(plan.work);
  return stats;
}

}  // namespace

TilePlan build_plan(const BoundMask& mask, const PlanRequest& request) {
  make_grid(PlaneMask{}, request);  // the request is wrong even where there is no plane
  TilePlan plan;
  plan.tile_m = request.tile_m;
  plan.tile_n = request.tile_n;
  plan.transposed = request.transposed;
  plan.heads = mask.heads;
  plan.plane_of.reserve(mask.plane_of.size());

  Builder builder(request, plan);
  std::vector<int32_t> number(mask.planes.size(), -1);  // a bound plane's number in the plan
  for (const int32_t bound : mask.plane_of) {
    int32_t& p = number[static_cast<size_t>(bound)];
    if (p < 0) p = builder.add(mask.planes[static_cast<size_t>(bound)]);
    plan.plane_of.push_back(p);
  }
  collapse_heads(plan);
  plan.planes.shrink_to_fit();
  plan.row_begin.shrink_to_fit();
  plan.runs.shrink_to_fit();
  plan.bit_tiles = builder.take_bits();
  plan.work = work_of(plan, request.split_cost);
  plan.stats = stats_of(plan);
  return plan;
}

}  // namespace anymask
