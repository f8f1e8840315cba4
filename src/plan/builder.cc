#include "plan/builder.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "core/error.h"
#include "core/interrupt.h"
#include "plan/balance.h"
#include "plan/band_rows.h"
#include "plan/bit_pool.h"
#include "plan/descend.h"
#include "plan/tile_bits.h"

namespace anymask {
namespace {

constexpr int32_t stripe_rows = 8;  // rows of tiles descended together, by one thread
// Stripes found before they are put into the plan, for each thread: the bit tiles of so many are held twice.
constexpr size_t stripes_a_round = 8;
// Below this many tiles (about 60 us of one core) waking a worker costs more than it brings.
constexpr int64_t serial_tiles = 2048;

// Tiles of one row, kept whole or cut.
struct Found {
  int32_t n_begin, n_end;
  int32_t bits;  // a cut tile's bits by their number in the finder's pool; otherwise one of these two
};
constexpr int32_t found_full = -1, found_open = -2;  // open: still to be looked at

void append(std::vector<Found>& row, int32_t n_begin, int32_t n_end, int32_t bits) {
  if (bits < 0 && !row.empty() && row.back().n_end == n_begin && row.back().bits == bits) {
    row.back().n_end = n_end;
  } else {
    row.push_back({n_begin, n_end, bits});
  }
}

// A stripe of one plane's rows, and what was found there.
struct Stripe {
  size_t plane = 0;  // among those being added
  int32_t m_begin = 0, m_end = 0;
  int finder = 0;
  std::vector<Found> found;
  int32_t row_end[stripe_rows];  // where each row's end
  int64_t kept_pairs, full_tiles, partial_tiles;
};

// What one thread finds stripes with. Its pool has equal tiles once already, so that putting finds into the plan, which
// is one thread's work, is short.
class Finder {
 public:
  explicit Finder(size_t words_per_tile) : pool_(words_per_tile), tile_(words_per_tile) {}

  void find(const PlaneMask& plane, const Grid& grid, Stripe& stripe) {
    stripe.found.clear();
    stripe.kept_pairs = stripe.full_tiles = stripe.partial_tiles = 0;
    if (plane.is_band()) {  // two integers a row of pairs say it all
      for (int32_t m = stripe.m_begin; m < stripe.m_end; ++m) {
        find_band_row(plane, grid, m, stripe);
        stripe.row_end[m - stripe.m_begin] = static_cast<int32_t>(stripe.found.size());
      }
      return;
    }
    for (std::vector<Found>& row : open_) row.clear();
    if (grid.n_blocks > 0) {
      descend(
          plane, grid, {stripe.m_begin, stripe.m_end, 0, grid.n_blocks},
          [&](const TileRect& t) {
            for (int32_t m = t.m_begin; m < t.m_end; ++m)
              append(open_[m - stripe.m_begin], t.n_begin, t.n_end, found_full);
          },
          [&](const TileRect& t) { append(open_[t.m_begin - stripe.m_begin], t.n_begin, t.n_end, found_open); });
    }
    TileBits bits(plane, grid, words_);
    for (int32_t m = stripe.m_begin; m < stripe.m_end; ++m) {
      finish_row(grid, m, bits, stripe);
      stripe.row_end[m - stripe.m_begin] = static_cast<int32_t>(stripe.found.size());
    }
  }

  // The number in `plan` of a tile found.
  int32_t intern(int32_t bits, BitPool& plan) {
    if (numbers_.size() <= static_cast<size_t>(bits)) numbers_.resize(static_cast<size_t>(pool_.size()), -1);
    int32_t& number = numbers_[static_cast<size_t>(bits)];
    if (number < 0) number = plan.intern(pool_.tile(bits));
    return number;
  }
  void forget() {
    pool_.clear();
    numbers_.clear();
  }

 private:
  void find_band_row(const PlaneMask& plane, const Grid& grid, int32_t m_block, Stripe& stripe) {
    band_row(plane, grid, m_block, band_);
    for (const Run& run : band_.runs) {
      if (run.kind == RunKind::full) {
        add_full(grid, m_block, run.n_begin, run.n_end, stripe);
        continue;
      }
      for (int32_t n = run.n_begin; n < run.n_end; ++n) {
        const int32_t at = run.bits + (run.kind == RunKind::partial ? n - run.n_begin : 0);
        const uint64_t* bits = band_.bits.data() + static_cast<size_t>(at) * tile_.size();
        add_partial(n, bits, count_ones(bits, tile_.size()), stripe);
      }
    }
  }

  // Evaluates what is still open.
  void finish_row(const Grid& grid, int32_t m_block, TileBits& bits, Stripe& stripe) {
    for (const Found& stretch : open_[m_block - stripe.m_begin]) {
      if (stretch.bits == found_full) {
        add_full(grid, m_block, stretch.n_begin, stretch.n_end, stripe);
        continue;
      }
      for (int32_t n = stretch.n_begin; n < stretch.n_end;) {
        const int32_t n_end = n + std::min(bits.tiles_at_once(), stretch.n_end - n);
        bits.evaluate(m_block, n, n_end);
        for (; n < n_end; ++n) {
          bits.tile(n, tile_.data());
          const int64_t kept = count_ones(tile_.data(), tile_.size());
          if (kept == 0) continue;
          if (kept == grid.pairs({m_block, m_block + 1, n, n + 1})) {
            add_full(grid, m_block, n, n + 1, stripe);
            continue;
          }
          add_partial(n, tile_.data(), kept, stripe);
        }
      }
    }
  }

  static void add_full(const Grid& grid, int32_t m_block, int32_t n_begin, int32_t n_end, Stripe& stripe) {
    stripe.kept_pairs += grid.pairs({m_block, m_block + 1, n_begin, n_end});
    stripe.full_tiles += n_end - n_begin;
    stripe.found.push_back({n_begin, n_end, found_full});
  }

  void add_partial(int32_t n, const uint64_t* bits, int64_t kept, Stripe& stripe) {
    stripe.kept_pairs += kept;
    ++stripe.partial_tiles;
    stripe.found.push_back({n, n + 1, pool_.intern(bits)});
  }

  BitPool pool_;
  BandRow band_;
  std::vector<int32_t> numbers_;  // of its tiles in the plan, -1 until they have one
  std::vector<Found> open_[stripe_rows];
  std::vector<uint64_t> tile_, words_;
};

// Builds the planes of a plan: stripes are found by whoever helps and put into the plan in their order.
class Builder {
 public:
  Builder(const PlanRequest& request, const Workers& workers, TilePlan& plan)
      : request_(request), workers_(workers), plan_(plan), pool_(plan.words_per_tile()) {
    plan_.row_begin.push_back(0);
  }

  // Appends planes in this order; returns their numbers: that of an equal one where one is already there.
  std::vector<int32_t> add(const std::vector<const PlaneMask*>& planes) {
    std::vector<Grid> grids;
    int64_t tiles = 0;
    for (const PlaneMask* plane : planes) {
      grids.push_back(make_grid(*plane, request_));
      tiles += int64_t{grids.back().m_blocks} * grids.back().n_blocks;
    }
    Workers workers = workers_;
    if (tiles < serial_tiles) workers.threads = 1;
    std::vector<std::unique_ptr<Finder>> finders;
    for (int i = 0; i < workers.threads; ++i) finders.push_back(std::make_unique<Finder>(plan_.words_per_tile()));
    std::vector<Stripe> stripes(stripes_a_round * finders.size());
    std::vector<int32_t> numbers;
    PlanPlane plane;
    int32_t m = 0;
    for (size_t p = 0; p < planes.size();) {
      size_t count = 0;
      for (; count < stripes.size() && p < planes.size(); ++count) {
        Stripe& stripe = stripes[count];
        stripe.plane = p;
        stripe.m_begin = m;
        stripe.m_end = m += std::min(stripe_rows, grids[p].m_blocks - m);
        if (m == grids[p].m_blocks) ++p, m = 0;
      }
      workers.each(static_cast<int64_t>(count), [&](int64_t i, int participant) {
        Stripe& stripe = stripes[static_cast<size_t>(i)];
        stripe.finder = participant;
        finders[static_cast<size_t>(participant)]->find(*planes[stripe.plane], grids[stripe.plane], stripe);
      });
      for (size_t i = 0; i < count; ++i) {
        const Stripe& stripe = stripes[i];
        const Grid& grid = grids[stripe.plane];
        poll_interrupt();
        if (stripe.m_begin == 0) plane = begin_plane(grid);
        put(stripe, *finders[static_cast<size_t>(stripe.finder)], plane);
        if (stripe.m_end == grid.m_blocks) numbers.push_back(deduplicate(plane));
      }
      for (const std::unique_ptr<Finder>& finder : finders) finder->forget();
    }
    return numbers;
  }

  std::vector<uint64_t> take_bits() { return pool_.take(); }

 private:
  PlanPlane begin_plane(const Grid& grid) const {
    PlanPlane plane;
    plane.rows = grid.rows;
    plane.cols = grid.cols;
    plane.m_blocks = grid.m_blocks;
    plane.n_blocks = grid.n_blocks;
    plane.first_row = static_cast<int64_t>(plan_.row_begin.size()) - 1;
    return plane;
  }

  // Appends the runs of a stripe's rows.
  void put(const Stripe& stripe, Finder& finder, PlanPlane& plane) {
    plane.kept_pairs += stripe.kept_pairs;
    plane.full_tiles += stripe.full_tiles;
    plane.partial_tiles += stripe.partial_tiles;
    size_t at = 0;
    for (int32_t m = stripe.m_begin; m < stripe.m_end; ++m) {
      const size_t row_begin = plan_.runs.size();
      for (const auto end = static_cast<size_t>(stripe.row_end[m - stripe.m_begin]); at < end; ++at) {
        const Found& found = stripe.found[at];
        if (found.bits == found_full) {
          append_full(row_begin, found.n_begin, found.n_end);
        } else {
          append_partial(row_begin, found.n_begin, finder.intern(found.bits, pool_));
        }
      }
      plan_.row_begin.push_back(static_cast<int64_t>(plan_.runs.size()));
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
  const Workers workers_;
  TilePlan& plan_;
  BitPool pool_;
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

TilePlan build_plan(const BoundMask& mask, const PlanRequest& request, const Workers& workers) {
  make_grid(PlaneMask{}, request);  // the request is wrong even where there is no plane
  TilePlan plan;
  plan.tile_m = request.tile_m;
  plan.tile_n = request.tile_n;
  plan.transposed = request.transposed;
  plan.heads = mask.heads;

  // Bound planes in the order of their use.
  std::vector<const PlaneMask*> used;
  std::vector<int32_t> place(mask.planes.size(), -1);
  for (const int32_t bound : mask.plane_of) {
    if (place[static_cast<size_t>(bound)] >= 0) continue;
    place[static_cast<size_t>(bound)] = static_cast<int32_t>(used.size());
    used.push_back(&mask.planes[static_cast<size_t>(bound)]);
  }
  Builder builder(request, workers, plan);
  const std::vector<int32_t> numbers = builder.add(used);
  plan.plane_of.reserve(mask.plane_of.size());
  for (const int32_t bound : mask.plane_of) {
    plan.plane_of.push_back(numbers[static_cast<size_t>(place[static_cast<size_t>(bound)])]);
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
