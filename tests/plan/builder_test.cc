// Plans against their definition: random masks of every kind, many tiles, both orientations; spellings; sharing;
// errors.
#include "plan/builder.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <thread>

#include "core/error.h"
#include "plan_check.h"

namespace anymask {
namespace {

constexpr PlanRequest requests[] = {
    {96, 64, false, 0},   {96, 64, true, 0},   {64, 64, false, 3},    {64, 64, true, 3},
    {1, 64, false, 0.5f}, {1, 64, true, 2},    {7, 128, false, 2},    {7, 128, true, 1.5f},
    {130, 192, false, 1}, {130, 192, true, 1}, {1000, 512, false, 0}, {1000, 512, true, 0},
};

struct Lengths {
  int64_t s_q, s_kv;
};
constexpr Lengths lengths[] = {{1, 1},   {1, 300}, {300, 1},  {63, 65},  {64, 64},   {128, 128},
                               {0, 100}, {100, 0}, {97, 500}, {500, 97}, {333, 333}, {0, 0}};

TEST(Builder, RandomMasksMatchTheDefinition) {
  uint64_t seed = 0;
  for (int round = 0; round < 12; ++round) {
    for (const Lengths& l : lengths) {
      const ExampleShape shape{l.s_q, l.s_kv, 2, 4, 2};
      ++seed;
      const Mask mask = random_mask(seed, shape, 1 + static_cast<int>(seed % 5));
      const BoundMask bound = anymask::bind(mask, sequences_of(2, l.s_q, l.s_kv), 4, 2);
      const PlanRequest& request = requests[seed % std::size(requests)];
      check_plan(build_plan(bound, request), bound, request);
      if (HasFailure())
        FAIL() << "seed " << seed << ", " << l.s_q << " x " << l.s_kv << ", tile " << request.tile_m << " x "
               << request.tile_n << (request.transposed ? " transposed: " : ": ") << mask.str();
    }
  }
}

// The first complaint of check_plan, or "": kept to ourselves, so that a failing case can shrink.
std::string complaint_about(const BoundMask& bound, const PlanRequest& request) {
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    check_plan(build_plan(bound, request), bound, request);
  }
  return failures.size() == 0 ? "" : failures.GetTestPartResult(0).message();
}

// Trees, lengths and tiles as they come; what fails shrinks to few positions and a small tree.
RC_GTEST_PROP(RandomPlans, MatchTheDefinition, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const auto s_q = *rc::gen::inRange<int64_t>(0, 300), s_kv = *rc::gen::inRange<int64_t>(0, 400);
  const Mask mask = random_mask(seed, {s_q, s_kv, 2, 4, 2}, *rc::gen::inRange(1, 9));
  const PlanRequest request{*rc::gen::inRange(1, 130), 64 * *rc::gen::inRange(1, 5), *rc::gen::arbitrary<bool>(), 1};
  RC_LOG() << mask.str();
  RC_ASSERT(complaint_about(anymask::bind(mask, sequences_of(2, s_q, s_kv), 4, 2), request) == "");
}

TEST(Builder, EveryKindMatchesTheDefinition) {
  for (const MaskKind& kind : mask_kinds()) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      std::mt19937_64 rng(seed);
      const Lengths l = seed % 3 == 0 ? Lengths{200, 200} : seed % 3 == 1 ? Lengths{150, 260} : Lengths{64, 64};
      const Mask mask = kind.random(rng, {l.s_q, l.s_kv, 2, 2, 1});
      const BoundMask bound = anymask::bind(mask, sequences_of(2, l.s_q, l.s_kv), 2, 1);
      for (const PlanRequest& request :
           {PlanRequest{96, 64, false, 2}, PlanRequest{96, 64, true, 2}, PlanRequest{16, 128, seed % 2 == 0, 0}}) {
        check_plan(build_plan(bound, request), bound, request);
        if (HasFailure()) FAIL() << kind.name << ", seed " << seed << ": " << mask.str();
      }
    }
  }
}

// Sequences of different lengths, as packed tensors have them: their planes share one pool.
TEST(Builder, RaggedSequences) {
  const std::vector<Sequence> sequences{
      {0, 0, 70, 0, 70}, {0, 70, 0, 70, 5}, {0, 70, 129, 75, 200}, {0, 199, 70, 275, 70}, {0, 269, 1, 345, 0}};
  const BoundMask bound = anymask::bind(Mask::parse("causal & stride(3) | keys(0, 2)"), sequences, 2, 1);
  for (const PlanRequest& request : requests) {
    const TilePlan plan = build_plan(bound, request);
    check_plan(plan, bound, request);
    EXPECT_EQ(plan.plane(0, 0), plan.plane(3, 1));  // the same lengths, the same plane
    EXPECT_EQ(plan.planes.size(), 4u);
  }
}

std::vector<Mask> spellings_of_causal(int64_t s_q, int64_t s_kv) {
  const int64_t shift = s_kv - s_q, bytes = (s_kv + 7) / 8;
  std::vector<uint8_t> below(static_cast<size_t>(s_q * s_kv)), above(below.size()),
      packed(static_cast<size_t>(s_q * bytes));
  std::vector<int64_t> zeros(static_cast<size_t>(s_q)), row_end, col_begin, col_end(static_cast<size_t>(s_kv), s_q);
  for (int64_t q = 0; q < s_q; ++q) {
    for (int64_t kv = 0; kv < s_kv; ++kv) {
      const bool keep = kv <= q + shift;
      below[static_cast<size_t>(q * s_kv + kv)] = keep;
      above[static_cast<size_t>(q * s_kv + kv)] = !keep;
      if (keep) packed[static_cast<size_t>(q * bytes + kv / 8)] |= static_cast<uint8_t>(1 << (kv % 8));
    }
    row_end.push_back(std::clamp<int64_t>(q + shift + 1, 0, s_kv));
  }
  for (int64_t kv = 0; kv < s_kv; ++kv) col_begin.push_back(std::clamp<int64_t>(kv - shift, 0, s_q));
  TensorView packed_view;
  packed_view.data = packed.data();
  packed_view.dtype = DType::u8;
  packed_view.rank = 2;
  packed_view.shape = {s_q, bytes};
  packed_view.stride = {bytes, 1};
  const std::vector<Array> arrays{booleans("below", below, s_q, s_kv), booleans("above", above, s_q, s_kv),
                                  Array::own(packed_view, "packed"),   table("row_begin", zeros, s_q, 1),
                                  table("row_end", row_end, s_q, 1),   table("col_begin", col_begin, s_kv, 1),
                                  table("col_end", col_end, s_kv, 1)};
  std::vector<Mask> masks;
  for (const char* text :
       {"causal", "window(-1, 0)", "dense(@below)", "~dense(@above)", "bits(@packed)", "blocks(@below, 1, 1)",
        "row_intervals(@row_begin, @row_end)", "col_intervals(@col_begin, @col_end)", "~~causal",
        "causal & dense(@below) | none", "per_batch([causal])", "per_head([causal, bits(@packed)])",
        "per_head([causal, window(-1, 0), causal, ~dense(@above)])"}) {
    masks.push_back(Mask::parse(text, arrays));
  }
  return masks;
}

TEST(Builder, SpellingsOfOneMaskGiveEqualPlans) {
  for (const Lengths& l : {Lengths{300, 300}, Lengths{130, 300}, Lengths{300, 130}}) {
    for (const PlanRequest& request : requests) {
      const std::vector<Mask> masks = spellings_of_causal(l.s_q, l.s_kv);
      const TilePlan expected = build_plan(anymask::bind(masks[0], sequences_of(1, l.s_q, l.s_kv), 4, 2), request);
      EXPECT_EQ(expected.heads, 1);
      for (size_t i = 1; i < masks.size(); ++i) {
        EXPECT_EQ(build_plan(anymask::bind(masks[i], sequences_of(1, l.s_q, l.s_kv), 4, 2), request), expected)
            << masks[i].str();
      }
    }
  }
}

// Heads that differ keep their planes, in the order the heads use them; equal ones are one plane.
TEST(Builder, PlanesOfHeads) {
  const Mask mask = Mask::parse("per_head([keys(0, 9), causal, keys(0, 9) | none, window(-1, 0)])");
  const BoundMask bound = anymask::bind(mask, sequences_of(2, 100, 100), 4, 4);
  const TilePlan plan = build_plan(bound, {});
  EXPECT_EQ(plan.heads, 4);
  EXPECT_EQ(plan.plane_of, (std::vector<int32_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  check_plan(plan, bound, {});
}

// Causal at a tile of 64 x 64: one bit tile in all, and two runs a row at most.
TEST(Builder, EqualBitTilesAreShared) {
  const BoundMask bound = bind_one(Mask::parse("causal"), 4096, 4096);
  const TilePlan square = build_plan(bound, {64, 64});
  EXPECT_EQ(square.bit_tiles.size(), square.words_per_tile());
  EXPECT_EQ(square.runs.size(), 2u * 64 - 1);
  EXPECT_EQ(square.stats.kept_pairs, 4096 * 4097 / 2);
  const TilePlan tall = build_plan(bound, {96, 64});  // the diagonal meets tiles in two phases, of two or three tiles
  EXPECT_LE(tall.bit_tiles.size(), 8 * tall.words_per_tile());
  // Rows 0 .. 31 see every key, the others none: all tiles are the same, one run of one bit tile.
  const TilePlan same = build_plan(bind_one(Mask::parse("positions(4032, 4064)"), 64, 4096), {64, 64});
  ASSERT_EQ(same.runs.size(), 1u);
  EXPECT_EQ(same.runs[0], (anymask::Run{0, 64, RunKind::partial_same, 0}));
}

// Threads of the moment.
void run_on_new_threads(int threads, JobFunction job, void* context) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(job, context, i);
  job(context, 0);
  for (std::thread& other : others) other.join();
}

// Stripes are found side by side, in any order; planes, runs and the numbers of bit tiles come out the same. Planes
// that list the same tiles meet across stripes, and rounds of stripes follow one another.
TEST(Builder, TheSameWhoeverHelps) {
  std::mt19937_64 rng(9);
  std::vector<int64_t> map(75 * 75);
  for (int64_t& entry : map) entry = rng() % 4 == 0;
  Array array = named("map", map);
  array.view.rank = 2;
  array.view.shape[0] = array.view.shape[1] = array.view.stride[0] = 75;
  array.view.stride[1] = 1;
  const Array arrays[] = {array};
  for (const char* text : {"causal & stride(3) | keys(0, 70)", "blocks(@map, 64, 64)", "~blocks(@map, 64, 64) & causal",
                           "per_head([causal | stride(5), window(300, 9) & stride(2), causal | stride(5)])", "none"}) {
    const BoundMask bound = anymask::bind(Mask::parse(text, arrays), sequences_of(2, 4777, 4750), 3, 3);
    for (const PlanRequest& request :
         {PlanRequest{}, PlanRequest{32, 64, true}, PlanRequest{16, 192, false, 20}, PlanRequest{5, 64}}) {
      const TilePlan alone = build_plan(bound, request);
      for (const int threads : {2, 3, 8})
        EXPECT_EQ(build_plan(bound, request, {threads, run_on_new_threads}), alone) << text << ", threads " << threads;
    }
  }
}

// A million positions: runs, work and bits stay linear. Bits of one pair each would be 116 GiB.
TEST(Builder, AMillionPositionsInLinearMemory) {
  const int64_t n = 1000000;
  std::mt19937_64 rng(4);
  std::vector<int64_t> offsets{0};
  while (offsets.back() < n)
    offsets.push_back(std::min<int64_t>(n, offsets.back() + 1 + static_cast<int64_t>(rng() % 4000)));
  const Array cu[] = {named("cu", offsets)};
  const BoundMask bound = bind_one(Mask::parse("causal & window(1023, 0) & documents(@cu)", cu), n, n);
  for (const bool transposed : {false, true}) {
    const TilePlan plan = build_plan(bound, {96, 64, transposed, 64});
    EXPECT_LE(plan.stats.bytes, int64_t{64} << 20);
    EXPECT_LE(plan.runs.size(), 10u * 10417);
    int64_t kept = 0;
    for (int64_t q = 0; q < n; ++q) {
      const Interval i = bound.planes[0].interval(q);
      kept += i.end - i.begin;
    }
    EXPECT_EQ(plan.stats.kept_pairs, kept);
    EXPECT_EQ(count_kept(bound.planes[0]), kept);
  }
}

std::string error_of(const BoundMask& bound, const PlanRequest& request) {
  try {
    build_plan(bound, request);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(Builder, RefusesWhatIndicesCannotHold) {
  const BoundMask small = bind_one(Mask::parse("causal"), 10, 10);
  EXPECT_NE(error_of(small, {0, 64}).find("tile_m is 0"), std::string::npos);
  EXPECT_NE(error_of(small, {-96, 64}).find("tile_m is -96"), std::string::npos);
  EXPECT_NE(error_of(small, {96, 0}).find("multiple of 64"), std::string::npos);
  EXPECT_NE(error_of(small, {96, 100}).find("multiple of 64"), std::string::npos);
  EXPECT_NE(error_of(small, {1 << 30, 1 << 30}).find("smaller tile"), std::string::npos);
  EXPECT_NE(error_of(small, {96, 64, false, -1}).find("split_cost"), std::string::npos);
  EXPECT_NE(error_of(small, {96, 64, false, std::numeric_limits<float>::quiet_NaN()}).find("split_cost"),
            std::string::npos);
  // 2^33 rows of tiles.
  const BoundMask tall = bind_one(Mask::parse("none"), int64_t{1} << 33, 1);
  EXPECT_NE(error_of(tall, {1, 64}).find("use a larger tile"), std::string::npos);
  // 2^66 pairs, though the tiles could be counted.
  const BoundMask huge = bind_one(Mask::parse("none"), int64_t{1} << 33, int64_t{1} << 33);
  EXPECT_NE(error_of(huge, {1 << 14, 1 << 14}).find("more pairs than 64 bits count"), std::string::npos);
  // Each sequence fits, their sum does not.
  const BoundMask many = anymask::bind(Mask::parse("none"), sequences_of(8, int64_t{1} << 30, int64_t{1} << 31), 1, 1);
  EXPECT_NE(error_of(many, {1 << 14, 1 << 14}).find("more than 64 bits count"), std::string::npos);
}

// Counts beyond 2^32 pairs are exact.
TEST(Builder, CountsBeyond32Bits) {
  const int64_t n = 1 << 20;
  const BoundMask bound = bind_one(Mask::parse("causal"), n, n);
  const TilePlan plan = build_plan(bound, {128, 128});
  EXPECT_EQ(plan.stats.kept_pairs, n * (n + 1) / 2);
  EXPECT_EQ(plan.stats.full_tiles, int64_t{8192} * 8191 / 2);
  EXPECT_EQ(plan.stats.partial_tiles, 8192);
  EXPECT_EQ(plan.stats.empty_tiles, int64_t{8192} * 8191 / 2);
}

}  // namespace
}  // namespace anymask
