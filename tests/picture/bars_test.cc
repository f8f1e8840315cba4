// Bar charts: bars as long as their values, legend, peak line, odd values.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/picture/drawn.h"
#include "tests/picture/synthetic.h"

namespace anymask::cli {
namespace {

BarRows sample() {
  return {
      "GFLOP/s",
      120,
      "FMA peak",
      {{"causal-s4096", {{"anymask", 100, "100 (83%)"}, {"peer", 50, ""}}}, {"full-s4096", {{"anymask", 110, ""}}}}};
}

std::vector<Box> bars_of(const DrawnSvg& svg) {
  std::vector<Box> bars;
  for (const DrawnBox& b : svg.boxes) {
    if (b.box.height != 12) bars.push_back(b.box);  // the legend's swatches
  }
  return bars;
}

TEST(Bars, LengthsAreProportional) {
  const auto bars = bars_of(read_svg(bars_svg("cpu", sample())));
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_NEAR(bars[0].width, 2 * bars[1].width, 0.02);
  EXPECT_NEAR(bars[2].width / bars[0].width, 1.1, 1e-3);
  EXPECT_EQ(bars[0].x, bars[1].x);
  EXPECT_LT(bars[0].y + bars[0].height, bars[1].y + 0.01);
}

TEST(Bars, SaysWhatItShows) {
  const DrawnSvg svg = read_svg(bars_svg("cpu <forward>", sample()));
  for (const char* text : {"cpu <forward>", "anymask", "peer", "causal-s4096", "full-s4096", "100 (83%)", "50", "110",
                           "FMA peak 120", "GFLOP/s"}) {
    EXPECT_NE(std::find(svg.texts.begin(), svg.texts.end(), text), svg.texts.end()) << text;
  }
  EXPECT_EQ(svg.description,
            "causal-s4096, anymask: 100 (83%); causal-s4096, peer: 50; full-s4096, anymask: 110 (GFLOP/s)");
  const DrawnPng png = read_png(bars_png("cpu <forward>", sample()));
  EXPECT_NEAR(png.width, 2 * svg.width, 1);
}

TEST(Bars, OddInputStillDraws) {
  read_svg(bars_svg("", {}));
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const BarRows odd{"ms",
                    nan,
                    "",
                    {{"none", {}},
                     {"nan", {{"a", nan, ""}, {"b", inf, ""}, {"c", 0, ""}}},
                     {std::string(300, 'x'), {{"d", 1e-9, std::string(300, 'y')}}}}};
  const DrawnSvg svg = read_svg(bars_svg("odd", odd));
  for (const Box& bar : bars_of(svg)) {
    EXPECT_GE(bar.width, 0);
    EXPECT_LE(bar.x + bar.width, svg.width);
  }
  read_png(bars_png("odd", odd));
}

TEST(Bars, ManySeriesAndGroupsFit) {
  BarRows rows{"GFLOP/s", 0, "", {}};
  for (int i = 0; i < 40; ++i) {
    rows.groups.push_back({"case " + std::to_string(i), {}});
    for (int j = 0; j < 12; ++j)
      rows.groups.back().bars.push_back({"a peer of some name " + std::to_string(j), 1.0 * i * j, ""});
  }
  const DrawnSvg svg = read_svg(bars_svg("many", rows));
  for (const DrawnBox& b : svg.boxes) {
    EXPECT_LE(b.box.x + b.box.width, svg.width);
    EXPECT_LE(b.box.y + b.box.height, svg.height);
  }
}

}  // namespace
}  // namespace anymask::cli
