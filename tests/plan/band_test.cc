// Rows computed on the spot against the definition and against plans: every band form, both orientations.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/tile_source.h"
#include "plan_check.h"

namespace anymask {
namespace {

struct Case {
  std::string text;
  int64_t s_q, s_kv;
  std::vector<Array> arrays = {};
};

// Random band masks: intersections of one to three of the forms, and causal or a window joined with a prefix.
Case random_band(std::mt19937_64& rng) {
  const auto up_to = [&rng](int64_t high) { return std::uniform_int_distribution<int64_t>(0, high)(rng); };
  constexpr int64_t sizes[] = {1, 2, 63, 64, 65, 100, 191, 192, 300, 450};
  Case c;
  c.s_q = sizes[up_to(9)];
  c.s_kv = up_to(1) ? c.s_q : sizes[up_to(9)];
  const int64_t terms = 1 + up_to(2);
  for (int64_t i = 0; i < terms; ++i) {
    if (i > 0) c.text += " & ";
    const std::string n = std::to_string(i);
    switch (up_to(9)) {
      case 0:
        c.text += "full";
        break;
      case 1:
        c.text += up_to(1) ? "causal" : "causal(align=\"top_left\")";
        break;
      case 2:
        c.text += "window(" + std::to_string(up_to(c.s_kv) - 1) + ", " + std::to_string(up_to(c.s_kv) - 1) + ")";
        break;
      case 3: {
        const int64_t a = up_to(c.s_kv);
        c.text += "keys(" + std::to_string(a) + ", " + std::to_string(a + up_to(c.s_kv - a)) + ")";
        break;
      }
      case 4: {
        const int64_t a = up_to(c.s_kv);
        c.text += "positions(" + std::to_string(a) + ", " + std::to_string(a + up_to(c.s_kv - a)) + ")";
        break;
      }
      case 5:
        c.text += "prefix(" + std::to_string(up_to(c.s_kv)) + ")";
        break;
      case 6:
        c.text += "chunked(" + std::to_string(1 + up_to(100)) + ")";
        break;
      case 7: {  // rows and keys cut apart: empty documents on either side, borders anywhere
        const int64_t documents = 1 + up_to(8);
        c.arrays.push_back(named("rows" + n, random_offsets(rng, c.s_q, documents)));
        c.arrays.push_back(named("keys" + n, random_offsets(rng, c.s_kv, documents)));
        c.text += "documents(@rows" + n + ", @keys" + n + ")";
        break;
      }
      case 8: {
        c.arrays.push_back(named("cu" + n, random_offsets(rng, c.s_kv, 1 + up_to(8))));
        c.text += "documents(@cu" + n + ")";
        break;
      }
      default:
        c.text += "(causal | prefix(" + std::to_string(up_to(c.s_kv)) + "))";
        break;
    }
  }
  return c;
}

constexpr PlanRequest requests[] = {{96, 64, false},  {96, 64, true},  {1, 64, false},  {1, 64, true},
                                    {64, 128, false}, {64, 128, true}, {5, 192, false}, {5, 192, true},
                                    {500, 64, false}, {500, 64, true}};

// The source lists what a plan lists, tile by tile and bit by bit; costs and touched ranges bound it.
void check_band(const Case& c, const PlanRequest& request) {
  const Mask mask = Mask::parse(c.text, c.arrays);
  const std::vector<Sequence> sequences = sequences_of(1, c.s_q, c.s_kv);
  const TileSource source = TileSource::make(mask, sequences, 1, 1, request);
  ASSERT_FALSE(source.planned()) << "not recognised as a band";
  const BoundMask bound = anymask::bind(mask, sequences, 1, 1);
  const TilePlan plan = build_plan(bound, request);
  const Grid grid = make_grid(bound.planes[0], request);
  ASSERT_EQ(source.m_blocks(0), grid.m_blocks);
  ASSERT_EQ(source.n_blocks(0), grid.n_blocks);
  ASSERT_EQ(source.rows(0), grid.rows);
  ASSERT_EQ(source.cols(0), grid.cols);
  const std::vector<uint8_t> pairs = pairs_of(bound.planes[0], request.transposed);
  const auto [touched_begin, touched_end] = source.touched(0);
  EXPECT_GE(touched_begin, 0);
  EXPECT_LE(touched_end, grid.n_blocks);
  TileRow row;
  int64_t kept = 0, full = 0, partial = 0;
  for (int32_t m = grid.m_blocks - 1; m >= 0; --m) {  // any order will do
    source.row(0, m, row);
    kept += check_row(row, pairs, grid, m);
    full += row.full_tiles;
    partial += row.partial_tiles;
    EXPECT_GE(source.cost(0, m), static_cast<float>(row.full_tiles + row.partial_tiles));
    if (row.runs().empty()) continue;
    EXPECT_LE(touched_begin, row.runs().front().n_begin);
    EXPECT_GE(touched_end, row.runs().back().n_end);
  }
  EXPECT_EQ(kept, plan.planes[0].kept_pairs);
  EXPECT_EQ(full, plan.planes[0].full_tiles);
  EXPECT_EQ(partial, plan.planes[0].partial_tiles);
}

TEST(Band, RandomBandsMatchPlans) {
  set_plan_cache_limit(0);
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    std::mt19937_64 rng(seed);
    const Case c = random_band(rng);
    const PlanRequest& request = requests[seed % std::size(requests)];
    check_band(c, request);
    if (HasFailure())
      FAIL() << "seed " << seed << ": " << c.text << ", " << c.s_q << " x " << c.s_kv << ", tile " << request.tile_m
             << " x " << request.tile_n << (request.transposed ? ", transposed" : "");
  }
  set_plan_cache_limit(int64_t{256} << 20);
}

TEST(Band, NamedCases) {
  set_plan_cache_limit(0);
  const std::vector<Case> cases = {
      {"causal", 500, 500},
      {"causal", 500, 100},  // rows that keep nothing
      {"causal", 1, 500},
      {"none", 200, 200},
      {"full", 0, 100},
      {"full", 100, 0},
      {"window(3, 0)", 400, 400},
      {"window(0, 3) & positions(100, 101)", 400, 400},
      {"keys(64, 128)", 100, 300},       // whole tiles, on their borders
      {"positions(50, 150)", 300, 300},  // all tiles alike
      {"documents([0, 48, 96], [0, 250, 500])", 96, 500},
      {"documents([0, 10, 20, 96], [0, 100, 100, 500])", 96, 500},
      {"documents([0, 40, 40, 96], [0, 64, 320, 500]) & positions(450, 500)", 96, 500},  // a gap of tiles
      {"causal | prefix(70)", 300, 300},
      {"causal & window(100, 0) & chunked(64)", 333, 333},
  };
  for (const Case& c : cases) {
    for (const PlanRequest& request : requests) {
      check_band(c, request);
      if (HasFailure())
        FAIL() << c.text << ", tile " << request.tile_m << " x " << request.tile_n
               << (request.transposed ? ", transposed" : "");
    }
  }
  set_plan_cache_limit(int64_t{256} << 20);
}

// The ends of a band never move backward, empty rows included: the search for columns rests on it. Asked one by one or
// many at once, they are the same.
TEST(Band, EndsAreMonotone) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 rng(seed);
    const Case c = random_band(rng);
    const BoundMask bound = bind_one(Mask::parse(c.text, c.arrays), c.s_q, c.s_kv);
    const PlaneMask& plane = bound.planes[0];
    ASSERT_TRUE(plane.is_band()) << c.text;
    std::vector<Interval> rows(static_cast<size_t>(plane.s_q));
    plane.intervals(0, plane.s_q, rows.data());
    const int64_t from = plane.s_q / 3;
    std::vector<Interval> later(static_cast<size_t>(plane.s_q - from));
    plane.intervals(from, plane.s_q - from, later.data());
    for (int64_t q = 0; q < plane.s_q; ++q) {
      const Interval one = plane.interval(q);
      for (const Interval& many :
           {rows[static_cast<size_t>(q)], q < from ? one : later[static_cast<size_t>(q - from)]}) {
        ASSERT_EQ(many.begin, one.begin) << c.text << ", row " << q;
        ASSERT_EQ(many.end, one.end) << c.text << ", row " << q;
      }
    }
    for (int64_t q = 1; q < plane.s_q; ++q) {
      ASSERT_LE(plane.interval(q - 1).begin, plane.interval(q).begin) << c.text << ", row " << q;
      ASSERT_LE(plane.interval(q - 1).end, plane.interval(q).end) << c.text << ", row " << q;
    }
  }
}

// Where one plane is no band, all are planned; a planned source lists the plan's own rows.
TEST(Band, AnyOtherMaskIsPlanned) {
  const Mask mask = Mask::parse("per_head([causal, stride(2)])");
  const std::vector<Sequence> sequences = sequences_of(1, 150, 150);
  for (const PlanRequest& request : requests) {
    const TileSource source = TileSource::make(mask, sequences, 2, 2, request);
    ASSERT_TRUE(source.planned());
    const BoundMask bound = anymask::bind(mask, sequences, 2, 2);
    for (int64_t h = 0; h < 2; ++h) {
      const PlaneMask& plane = bound.planes[static_cast<size_t>(bound.plane(0, h))];
      const Grid grid = make_grid(plane, request);
      const std::vector<uint8_t> pairs = pairs_of(plane, request.transposed);
      const int32_t p = source.plane(0, h);
      const auto [touched_begin, touched_end] = source.touched(p);
      int32_t least = grid.n_blocks, most = 0;
      TileRow row;
      for (int32_t m = 0; m < source.m_blocks(p); ++m) {
        source.row(p, m, row);
        check_row(row, pairs, grid, m);
        EXPECT_EQ(source.cost(p, m), static_cast<float>(row.full_tiles + row.partial_tiles));
        least = std::min(least, row.runs().front().n_begin);
        most = std::max(most, row.runs().back().n_end);
      }
      EXPECT_EQ(touched_begin, least);
      EXPECT_EQ(touched_end, most);
    }
  }
}

TEST(Band, APlanThatListsNothingTouchesNothing) {
  const TileSource source =
      TileSource::make(Mask::parse("stride(2) & keys(0, 0)"), sequences_of(1, 100, 100), 1, 1, {});
  const auto [begin, end] = source.touched(0);
  EXPECT_EQ(begin, end);
}

// 2^31 positions cost nothing to prepare, and a row of tiles only what it lists.
TEST(Band, BillionsOfPositions) {
  const int64_t n = int64_t{1} << 31;
  for (const bool transposed : {false, true}) {
    const TileSource source =
        TileSource::make(Mask::parse("causal & window(99, 0)"), sequences_of(1, n, n), 1, 1, {96, 64, transposed});
    TileRow row;
    source.row(0, source.m_blocks(0) - 1, row);
    ASSERT_FALSE(row.runs().empty());
    EXPECT_EQ(row.runs().back().n_end, source.n_blocks(0));
    EXPECT_LE(row.full_tiles + row.partial_tiles, 5);
    EXPECT_GE(source.touched(0).second, source.n_blocks(0));
  }
}

}  // namespace
}  // namespace anymask
