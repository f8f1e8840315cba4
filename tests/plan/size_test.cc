// Plans of long sequences stay small: what they hold follows the boundary of an interval-like mask, not its area.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/array.h"
#include "mask/mask.h"
#include "plan/builder.h"
#include "plan/tile_source.h"

namespace anymask {
namespace {

// A million positions of causal & window & documents within 64 MiB, in both orientations; and without any plan where
// the two integers a row suffice.
TEST(Size, AMillionPositions) {
  constexpr int64_t positions = 1'000'000;
  std::vector<int64_t> offsets{0};
  for (int64_t i = 0; offsets.back() < positions; ++i)
    offsets.push_back(std::min(positions, offsets.back() + 1 + i * 7919 % 1023));
  const Array arrays[] = {Array::own(offsets, "cu")};
  const Mask mask = Mask::parse("causal & window(1023, 0) & documents(@cu)", arrays);
  const Sequence sequences[] = {{0, 0, positions, 0, positions}};
  for (const bool transposed : {false, true}) {
    PlanRequest request;
    request.tile_m = transposed ? 256 : 96;
    request.transposed = transposed;
    const TilePlan plan = build_plan(bind(mask, sequences, 1, 1), request);
    EXPECT_LT(plan.stats.bytes, int64_t{64} << 20);
    EXPECT_GT(plan.stats.kept_pairs, positions);
    EXPECT_FALSE(TileSource::make(mask, sequences, 1, 1, request).planned());
  }
}

}  // namespace
}  // namespace anymask
