#include "plan_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "plan/bits.h"

namespace anymask {

Array table(const std::string& name, const std::vector<int64_t>& values, int64_t rows, int64_t cols) {
  TensorView view;
  view.data = const_cast<int64_t*>(values.data());
  view.dtype = DType::i64;
  view.rank = 2;
  view.shape = {rows, cols};
  view.stride = {cols, 1};
  return Array::own(view, name);
}

Array booleans(const std::string& name, const std::vector<uint8_t>& values, int64_t rows, int64_t cols) {
  TensorView view;
  view.data = const_cast<uint8_t*>(values.data());
  view.dtype = DType::boolean;
  view.rank = 2;
  view.shape = {rows, cols};
  view.stride = {cols, 1};
  return Array::own(view, name);
}

std::vector<int64_t> random_offsets(std::mt19937_64& rng, int64_t length, int64_t documents) {
  std::vector<int64_t> offsets{0};
  for (int64_t i = 1; i < documents; ++i) offsets.push_back(std::uniform_int_distribution<int64_t>(0, length)(rng));
  offsets.push_back(length);
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

std::vector<uint8_t> pairs_of(const PlaneMask& plane, bool transposed) {
  std::vector<uint8_t> pairs;
  pairs.reserve(static_cast<size_t>(plane.s_q * plane.s_kv));
  const int64_t rows = transposed ? plane.s_kv : plane.s_q, cols = transposed ? plane.s_q : plane.s_kv;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) pairs.push_back(transposed ? plane.keep(j, i) : plane.keep(i, j));
  }
  return pairs;
}

namespace {

// A tile's bits by definition, and its kept pairs.
int64_t define_tile(const std::vector<uint8_t>& pairs, const Grid& grid, int32_t m, int32_t n,
                    std::vector<uint64_t>& bits) {
  const int64_t words = grid.tile_n / 64;
  bits.assign(static_cast<size_t>(grid.tile_m * words), 0);
  int64_t kept = 0;
  for (int64_t i = grid.row_begin(m); i < grid.row_end(m + 1); ++i) {
    for (int64_t j = grid.col_begin(n); j < grid.col_end(n + 1); ++j) {
      if (!pairs[static_cast<size_t>(i * grid.cols + j)]) continue;
      const int64_t column = j - grid.col_begin(n);
      bits[static_cast<size_t>((i - grid.row_begin(m)) * words + column / 64)] |= uint64_t{1} << (column % 64);
      ++kept;
    }
  }
  return kept;
}

}  // namespace

int64_t check_row(const TileRow& row, const std::vector<uint8_t>& pairs, const Grid& grid, int32_t m_block) {
  int64_t kept_pairs = 0, full_tiles = 0, partial_tiles = 0;
  std::vector<uint64_t> bits;
  size_t r = 0;
  for (int32_t n = 0; n < grid.n_blocks; ++n) {
    const int64_t kept = define_tile(pairs, grid, m_block, n, bits);
    kept_pairs += kept;
    while (r < row.runs().size() && row.runs()[r].n_end <= n) ++r;
    const bool listed = r < row.runs().size() && row.runs()[r].n_begin <= n;
    EXPECT_EQ(listed, kept > 0) << "tile (" << m_block << ", " << n << ") keeps " << kept;
    if (!listed || kept == 0) continue;
    const Run& run = row.runs()[r];
    const bool full = kept == grid.pairs({m_block, m_block + 1, n, n + 1});
    EXPECT_EQ(run.kind == RunKind::full, full) << "tile (" << m_block << ", " << n << ") keeps " << kept;
    ++(full ? full_tiles : partial_tiles);
    if (full || run.kind == RunKind::full) continue;
    EXPECT_EQ(std::memcmp(row.bits(run, n), bits.data(), bits.size() * sizeof(uint64_t)), 0)
        << "bits of tile (" << m_block << ", " << n << ")";
  }
  int32_t end = 0;
  for (size_t i = 0; i < row.runs().size(); ++i) {
    const Run& run = row.runs()[i];
    EXPECT_GE(run.n_begin, end) << "runs ascend and do not overlap";
    EXPECT_LT(run.n_begin, run.n_end);
    EXPECT_LE(run.n_end, grid.n_blocks);
    if (run.kind == RunKind::full && i > 0 && row.runs()[i - 1].kind == RunKind::full) {
      EXPECT_GT(run.n_begin, end) << "adjacent FULL tiles are one run";
    }
    if (run.kind == RunKind::partial_same) {
      EXPECT_GE(run.n_end - run.n_begin, 2);
    }
    end = run.n_end;
  }
  EXPECT_EQ(row.full_tiles, full_tiles);
  EXPECT_EQ(row.partial_tiles, partial_tiles);
  return kept_pairs;
}

namespace {

// Work covers every listed tile once, longest first; every row of tiles has an item.
void check_work(const TilePlan& plan, float split_cost) {
  std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> visited;
  std::map<std::pair<int32_t, int32_t>, std::vector<float>> costs;
  for (size_t i = 0; i < plan.work.size(); ++i) {
    const WorkItem& item = plan.work[i];
    if (i > 0) {
      EXPECT_LE(item.cost, plan.work[i - 1].cost) << "longest first";
    }
    const PlanPlane& plane = plan.planes[static_cast<size_t>(item.plane)];
    const int64_t row = plan.row_begin[static_cast<size_t>(plane.first_row + item.m_block)];
    std::vector<int32_t>& tiles = visited[{item.plane, item.m_block}];
    std::vector<float>& pieces = costs[{item.plane, item.m_block}];
    EXPECT_EQ(item.split, static_cast<int32_t>(pieces.size())) << "pieces of a row keep their order";
    pieces.push_back(item.cost);
    int64_t here = 0;
    for (int32_t r = item.run_begin; r < item.run_end; ++r) {
      const Run& run = plan.runs[static_cast<size_t>(row + r)];
      const int32_t begin = r == item.run_begin ? item.n_begin : run.n_begin;
      const int32_t end = r == item.run_end - 1 ? item.n_end : run.n_end;
      EXPECT_LE(run.n_begin, begin);
      EXPECT_LT(begin, end);
      EXPECT_LE(end, run.n_end);
      for (int32_t n = begin; n < end; ++n) tiles.push_back(n);
      here += end - begin;
    }
    EXPECT_EQ(item.cost, static_cast<float>(here));
    if (split_cost >= 1) {
      EXPECT_LE(item.cost, split_cost);
    }
  }
  for (size_t p = 0; p < plan.planes.size(); ++p) {
    const PlanPlane& plane = plan.planes[p];
    for (int32_t m = 0; m < plane.m_blocks; ++m) {
      std::vector<int32_t> listed;
      const int64_t* row = plan.row_begin.data() + plane.first_row + m;
      for (int64_t r = row[0]; r < row[1]; ++r) {
        for (int32_t n = plan.runs[static_cast<size_t>(r)].n_begin; n < plan.runs[static_cast<size_t>(r)].n_end; ++n)
          listed.push_back(n);
      }
      const std::pair<int32_t, int32_t> key{static_cast<int32_t>(p), m};
      ASSERT_TRUE(visited.contains(key)) << "row of tiles " << m << " has no item";
      // Of equal cost, pieces stay in order; of near-equal cost, the longer ones (the first) come first: so in order
      // always.
      EXPECT_EQ(visited[key], listed);
      const auto [least, most] = std::minmax_element(costs[key].begin(), costs[key].end());
      EXPECT_LE(*most - *least, 1.0f);
      if (split_cost > 0) {
        const auto piece = static_cast<double>(std::max(1.0f, std::floor(split_cost)));
        const auto fewest = static_cast<size_t>(std::max(1.0, std::ceil(static_cast<double>(listed.size()) / piece)));
        EXPECT_EQ(costs[key].size(), fewest);
      } else {
        EXPECT_EQ(costs[key].size(), 1u);
      }
    }
  }
}

}  // namespace

void check_plan(const TilePlan& plan, const BoundMask& mask, const PlanRequest& request) {
  ASSERT_EQ(plan.tile_m, request.tile_m);
  ASSERT_EQ(plan.tile_n, request.tile_n);
  ASSERT_EQ(plan.transposed, request.transposed);
  PlanStats stats;
  std::map<std::vector<uint64_t>, int32_t> pool;  // content -> number, by first occurrence
  std::vector<bool> seen(plan.planes.size(), false);
  int32_t planes_seen = 0;
  const int64_t sequences = mask.plane_of.empty() ? 0 : static_cast<int64_t>(mask.plane_of.size()) / mask.heads;
  ASSERT_EQ(static_cast<int64_t>(plan.plane_of.size()), sequences * plan.heads);
  std::map<int32_t, int32_t> plan_plane_of;  // bound plane -> plan plane
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t h = 0; h < mask.heads; ++h) {
      const int32_t bound = mask.plane(s, h), number = plan.plane(s, h);
      if (const auto known = plan_plane_of.find(bound); known != plan_plane_of.end()) {
        EXPECT_EQ(known->second, number);
        continue;
      }
      plan_plane_of[bound] = number;
      const PlaneMask& source = mask.planes[static_cast<size_t>(bound)];
      const Grid grid = make_grid(source, request);
      const PlanPlane& plane = plan.planes[static_cast<size_t>(number)];
      const std::vector<uint8_t> pairs = pairs_of(source, request.transposed);
      EXPECT_EQ(plane.rows, grid.rows);
      EXPECT_EQ(plane.cols, grid.cols);
      ASSERT_EQ(plane.m_blocks, grid.m_blocks);
      ASSERT_EQ(plane.n_blocks, grid.n_blocks);
      EXPECT_EQ(plane.kept_pairs, std::count(pairs.begin(), pairs.end(), 1));
      if (seen[static_cast<size_t>(number)]) continue;  // an equal plane: the rows are compared once
      EXPECT_EQ(number, planes_seen++) << "planes are numbered by first occurrence";
      seen[static_cast<size_t>(number)] = true;

      int64_t full_tiles = 0, partial_tiles = 0;
      std::vector<uint64_t> bits;
      for (int32_t m = 0; m < grid.m_blocks; ++m) {
        // The runs the documentation gives, from the definition of the tiles alone.
        std::vector<Run> expected;
        for (int32_t n = 0; n < grid.n_blocks; ++n) {
          const int64_t kept = define_tile(pairs, grid, m, n, bits);
          if (kept == 0) continue;
          const bool full = kept == grid.pairs({m, m + 1, n, n + 1});
          ++(full ? full_tiles : partial_tiles);
          const int32_t tile = full ? 0 : pool.try_emplace(bits, static_cast<int32_t>(pool.size())).first->second;
          Run* last = expected.empty() || expected.back().n_end != n ? nullptr : &expected.back();
          if (last && full && last->kind == RunKind::full) {
            last->n_end = n + 1;
          } else if (last && !full && last->kind == RunKind::partial && tile == last->bits + (n - last->n_begin)) {
            last->n_end = n + 1;
          } else if (last && !full && last->kind != RunKind::full && tile == last->bits &&
                     (last->kind == RunKind::partial_same || n - last->n_begin == 1)) {
            last->kind = RunKind::partial_same;
            last->n_end = n + 1;
          } else {
            expected.push_back({n, n + 1, full ? RunKind::full : RunKind::partial, tile});
          }
        }
        const int64_t* row = plan.row_begin.data() + plane.first_row + m;
        ASSERT_LE(row[0], row[1]);
        const std::vector<Run> runs(plan.runs.begin() + row[0], plan.runs.begin() + row[1]);
        ASSERT_EQ(runs, expected) << "row of tiles " << m;
      }
      EXPECT_EQ(plane.full_tiles, full_tiles);
      EXPECT_EQ(plane.partial_tiles, partial_tiles);
    }
  }
  EXPECT_EQ(planes_seen, static_cast<int32_t>(plan.planes.size()));
  ASSERT_EQ(plan.bit_tiles.size(), pool.size() * plan.words_per_tile());
  for (const auto& [bits, number] : pool) {
    EXPECT_EQ(std::memcmp(plan.bit_tiles.data() + static_cast<size_t>(number) * plan.words_per_tile(), bits.data(),
                          bits.size() * sizeof(uint64_t)),
              0)
        << "bit tile " << number;
  }
  for (const int32_t p : plan.plane_of) {
    const PlanPlane& plane = plan.planes[static_cast<size_t>(p)];
    stats.kept_pairs += plane.kept_pairs;
    stats.pairs += plane.rows * plane.cols;
    stats.full_tiles += plane.full_tiles;
    stats.partial_tiles += plane.partial_tiles;
    stats.empty_tiles += int64_t{plane.m_blocks} * plane.n_blocks - plane.full_tiles - plane.partial_tiles;
  }
  EXPECT_EQ(plan.stats.kept_pairs, stats.kept_pairs);
  EXPECT_EQ(plan.stats.pairs, stats.pairs);
  EXPECT_EQ(plan.stats.full_tiles, stats.full_tiles);
  EXPECT_EQ(plan.stats.partial_tiles, stats.partial_tiles);
  EXPECT_EQ(plan.stats.empty_tiles, stats.empty_tiles);
  EXPECT_GE(plan.stats.bytes,
            static_cast<int64_t>(plan.bit_tiles.size() * sizeof(uint64_t) + plan.runs.size() * sizeof(Run) +
                                 plan.work.size() * sizeof(WorkItem)));
  check_work(plan, request.split_cost);
}

}  // namespace anymask
