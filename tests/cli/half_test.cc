// The 16-bit types against arithmetic: every value widened, rounding at every boundary between neighbours.
#include "cli/io/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace anymask::cli {
namespace {

TEST(Half, EveryFiniteValueSurvivesWideningAndNarrowing) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(f16_to_f32(half))) {
      EXPECT_EQ(f32_to_f16(f16_to_f32(half)), half);
    }
    if (!std::isnan(bf16_to_f32(half))) {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_f32(0xc000), -2.0f);
  EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_f32(0x7c00), INFINITY);
  EXPECT_EQ(bf16_to_f32(0x3f80), 1.0f);
}

TEST(Half, RoundsToNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = f16_to_f32(static_cast<uint16_t>(bits)), high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, low)), bits);
    EXPECT_EQ(f32_to_f16(middle), bits + (bits & 1));
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(Half, WhatDoesNotFit) {
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(NAN))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
  EXPECT_EQ(f32_to_bf16(INFINITY), 0x7f80);
  EXPECT_EQ(f32_to_bf16(3.4e38f), 0x7f80);  // above the largest bf16
}

}  // namespace
}  // namespace anymask::cli
