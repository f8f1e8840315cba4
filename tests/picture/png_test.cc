// PNG pictures: libpng reads them, they measure twice the SVG, and cells have the same places and colours.
#include <gtest/gtest.h>

#include "cli/picture/font.h"
#include "tests/picture/drawn.h"
#include "tests/picture/synthetic.h"

namespace anymask::cli {
namespace {

bool causal(int64_t q, int64_t kv) { return kv <= q; }

void expect_as_svg(const MaskPicture& p) {
  const DrawnSvg svg = read_svg(picture_svg(p));
  const DrawnPng png = read_png(picture_png(p));
  EXPECT_NEAR(png.width, 2 * svg.width, 1);
  EXPECT_NEAR(png.height, 2 * svg.height, 1);
  const Box plot = plot_of(svg);
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.cols; ++j) {
      const double x = plot.x + plot.width * (static_cast<double>(j) + 0.5) * static_cast<double>(p.cell_kv) /
                                    static_cast<double>(p.s_kv);
      const double y = plot.y + plot.height * (static_cast<double>(i) + 0.5) * static_cast<double>(p.cell_q) /
                                    static_cast<double>(p.s_q);
      ASSERT_EQ(png.at(x, y), cell_color(p, i, j)) << p.title << " cell " << i << ", " << j;
    }
  }
}

TEST(Png, CellsLieWhereTheSvgHasThem) {
  expect_as_svg(synthetic("causal", 16, 16, {1, 1, 96, 64}, causal));
  expect_as_svg(synthetic("tiles", 128, 128, {1, 1, 32, 32}, causal));
  expect_as_svg(synthetic("cells of 8 x 8", 512, 512, {8, 8, 32, 64},
                          [](int64_t q, int64_t kv) { return kv <= q && kv > q - 100; }));
}

TEST(Png, ColorsTellTilesApart) {
  const MaskPicture p = synthetic("causal", 128, 128, {1, 1, 32, 32}, causal);
  EXPECT_EQ(cell_color(p, 127, 0), kFull);
  EXPECT_EQ(cell_color(p, 0, 127), kEmpty);
  EXPECT_EQ(cell_color(p, 40, 33), kPartialKept);
  EXPECT_EQ(cell_color(p, 33, 40), kPartialDropped);
}

TEST(Png, ALittleIsNotNothingAndNearlyAllIsNotAll) {
  MaskPicture p = synthetic("share", 1, 2, {1, 1, 96, 64}, causal);
  p.share = {1e-6f, 1 - 1e-6f};
  EXPECT_NE(cell_color(p, 0, 0), kPartialDropped);
  EXPECT_NE(cell_color(p, 0, 1), kPartialKept);
}

TEST(Png, ZeroSizesAndOddTextsDraw) {
  EXPECT_GT(read_png(picture_png(synthetic("\u4e2d\xff\n<&>", 0, 16, {1, 1, 96, 64}, causal))).width, 400);
  EXPECT_GT(read_png(picture_png(synthetic("", 16, 0, {}, causal))).width, 400);
  EXPECT_GT(read_png(gallery_png("", {})).width, 0);
}

TEST(Png, LettersDifferFromEachOther) {
  for (char32_t a = U'!'; a <= U'~'; ++a) {
    EXPECT_NE(glyph_of(a), glyph_of(U' ')) << static_cast<char>(a);
    for (char32_t b = a + 1; b <= U'~'; ++b)
      EXPECT_NE(glyph_of(a), glyph_of(b)) << static_cast<char>(a) << static_cast<char>(b);
  }
  EXPECT_EQ(glyph_of(0x4e2d), glyph_of(0xFFFD)) << "the box for what has no glyph";
  EXPECT_EQ(glyph_of(U'L')[6], 0x1f) << "L stands on the baseline";
}

TEST(Png, TextIsDrawnWhereItWasAsked) {
  const auto canvas = png_canvas(40, 20);
  canvas->text(4, 14, "L", Letters::small, Anchor::left, kInk);
  const DrawnPng png = read_png(canvas->finish("", ""));
  EXPECT_EQ(png.at(4.5, 7.5), kInk) << "its top";
  EXPECT_EQ(png.at(8.5, 13.5), kInk) << "the end of its foot";
  EXPECT_EQ(png.at(8.5, 8.5), kPaper);
  EXPECT_EQ(png.at(4.5, 14.5), kPaper) << "below the baseline";
}

}  // namespace
}  // namespace anymask::cli
