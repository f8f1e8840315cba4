// Plans through the C++ API: what the arrays say is what the mask keeps.
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

namespace {

using namespace anymask;

TEST(Plan, RunsAndBitsSpellTheMask) {
  const Mask m = (causal() & documents({0, 70, 200})) | keys(0, 4);
  const Lengths lengths = {.s_q = 200, .s_kv = 200, .batch = 2, .h_q = 4, .h_kv = 2};
  for (const bool transposed : {false, true}) {
    const Plan plan(m, lengths, {.tile_m = 32, .tile_n = 64, .transposed = transposed});
    ASSERT_EQ(plan.planes().size(), 1u);
    const auto& plane = plan.planes()[0];
    EXPECT_EQ(plane.m_blocks, 7);
    EXPECT_EQ(plane.n_blocks, 4);
    std::vector<uint8_t> dense(200 * 200);
    m.dense(lengths, Tensor(dense, {200, 200}), 1, 3);
    int64_t kept = 0, full = 0;
    std::vector<uint8_t> spelled(200 * 200);
    for (int32_t mb = 0; mb < plane.m_blocks; ++mb) {
      for (const anymask_run& run : plan.row(plane, mb)) {
        for (int32_t nb = run.n_begin; nb < run.n_end; ++nb) {
          full += run.kind == 0;
          for (int64_t i = 32 * mb; i < std::min(200, 32 * mb + 32); ++i) {
            for (int64_t j = 64 * nb; j < std::min(200, 64 * nb + 64); ++j) {
              const bool keep =
                  run.kind == 0 ||
                  (plan.bit_tile(run.bits + (run.kind == 1 ? nb - run.n_begin : 0))[static_cast<size_t>(i - 32 * mb)] >>
                       (j - 64 * nb) &
                   1);
              spelled[static_cast<size_t>(transposed ? j * 200 + i : i * 200 + j)] = keep;
              kept += keep;
            }
          }
        }
      }
    }
    EXPECT_EQ(spelled, dense);
    EXPECT_EQ(kept, plane.kept_pairs);
    EXPECT_EQ(full, plane.full_tiles);
    EXPECT_EQ(plan.view().heads, 1);
    EXPECT_EQ(plan.view().kept_pairs, kept * 2);  // over 2 batch entries; the 4 heads share a mask
    EXPECT_EQ(plan.view().kept_pairs * 4, m.count(lengths).kept);
    EXPECT_EQ(plan.view().pairs * 4, m.count(lengths).pairs);
    EXPECT_FALSE(plan.work().empty());
  }
}

TEST(Plan, RefusesTilesThatDoNotFit) {
  const Lengths lengths = {.s_q = 10, .s_kv = 10};
  const auto expect_error = [&](const PlanOptions& options, const char* text) {
    try {
      Plan(causal(), lengths, options);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::invalid_argument);
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  expect_error({.tile_m = -1}, "plan: tile_m is -1");
  expect_error({.tile_n = 32}, "tile_n is 32; expected a multiple of 64");
  expect_error({.tile_m = 1 << 20}, "tile_m is 1048576");
  expect_error({.split_cost = -1.0f}, "split_cost is -1");
}

TEST(Plan, NullsAreErrors) {
  anymask_plan_t plan = nullptr;
  EXPECT_EQ(anymask_plan_create(nullptr, nullptr, nullptr, &plan), ANYMASK_INVALID_ARGUMENT);
  EXPECT_STREQ(anymask_last_error(), "plan: mask is NULL; expected a valid pointer: pass one");
  EXPECT_EQ(anymask_plan_create(causal().get(), nullptr, nullptr, &plan), ANYMASK_INVALID_ARGUMENT);
  EXPECT_EQ(anymask_plan_get(nullptr, nullptr), ANYMASK_INVALID_ARGUMENT);
  anymask_plan_free(nullptr);
}

TEST(PlanCache, CountsAndEmpties) {
  const auto before = plan_cache_stats();
  EXPECT_GT(before.limit_bytes, 0);
  set_plan_cache_limit(0);
  EXPECT_EQ(plan_cache_stats().entries, 0);
  EXPECT_EQ(plan_cache_stats().limit_bytes, 0);
  set_plan_cache_limit(before.limit_bytes);
  EXPECT_EQ(plan_cache_stats().limit_bytes, before.limit_bytes);
}

}  // namespace
