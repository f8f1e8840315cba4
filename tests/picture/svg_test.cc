// SVG pictures: well-formed, self-contained, small, and every cell in its place and colour.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/picture/drawn.h"
#include "tests/picture/synthetic.h"

namespace anymask::cli {
namespace {

bool causal(int64_t q, int64_t kv) { return kv <= q; }

// The colour on top at a point.
Rgb color_at(const DrawnSvg& svg, double x, double y) {
  Rgb color = kPaper;
  for (const DrawnBox& b : svg.boxes) {
    if (x >= b.box.x && x < b.box.x + b.box.width && y >= b.box.y && y < b.box.y + b.box.height) color = b.color;
  }
  return color;
}

void expect_cells(const MaskPicture& p) {
  const DrawnSvg svg = read_svg(picture_svg(p));
  const Box plot = plot_of(svg);
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t j = 0; j < p.cols; ++j) {
      // The middle of the cell, which the plane's edge may cut short.
      const auto middle = [](int64_t cell, int64_t side, int64_t length) {
        return static_cast<double>(cell * side + std::min((cell + 1) * side, length)) / 2 / static_cast<double>(length);
      };
      const Rgb color = color_at(svg, plot.x + plot.width * middle(j, p.cell_kv, p.s_kv),
                                 plot.y + plot.height * middle(i, p.cell_q, p.s_q));
      ASSERT_EQ(color, cell_color(p, i, j)) << p.title << " cell " << i << ", " << j;
    }
  }
}

TEST(Svg, EveryCellHasItsPlaceAndColor) {
  expect_cells(synthetic("causal", 16, 16, {1, 1, 96, 64}, causal));
  expect_cells(synthetic("causal, no tiles", 16, 16, {}, causal));
  expect_cells(synthetic("tiles", 128, 128, {1, 1, 16, 32}, causal));
  expect_cells(synthetic("cells of 4 x 8", 250, 500, {4, 8, 16, 64},
                         [](int64_t q, int64_t kv) { return kv <= q + 250 && kv % 7 != 0; }));
  expect_cells(synthetic("cells beyond tiles", 1000, 1000, {48, 48, 16, 16},
                         [](int64_t q, int64_t kv) { return q / 16 % 2 == kv / 16 % 2; }));
  expect_cells(
      synthetic("checkerboard", 64, 64, {1, 1, 32, 64}, [](int64_t q, int64_t kv) { return (q + kv) % 2 == 0; }));
  expect_cells(synthetic("one row", 1, 300, {1, 4, 96, 64}, [](int64_t, int64_t kv) { return kv % 100 < 50; }));
  expect_cells(synthetic("tall", 4000, 16, {96, 1, 96, 64}, [](int64_t q, int64_t kv) { return kv <= q % 16; }));
}

TEST(Svg, SaysWhatItShows) {
  const DrawnSvg svg = read_svg(picture_svg(synthetic("causal", 128, 128, {1, 1, 32, 64}, causal)));
  EXPECT_EQ(svg.title, "causal");
  EXPECT_EQ(svg.description,
            "keeps 50.4% of 16,384 pairs (128 queries x 128 keys); tiles of 32 queries x 64 keys: 2 full, 4 partial, 2 "
            "empty");
  const auto says = [&svg](const char* text) {
    return std::find(svg.texts.begin(), svg.texts.end(), text) != svg.texts.end();
  };
  for (const char* text : {"causal", "keeps 50.4% of 16,384 pairs (128 queries x 128 keys)", "q", "keys", "0", "127",
                           "full tile", "partial tile: kept", "partial tile: dropped", "empty tile"}) {
    EXPECT_TRUE(says(text)) << text;
  }
}

TEST(Svg, HoldsNothingActiveAndNothingFromElsewhere) {
  const std::string bytes = picture_svg(synthetic("causal", 16, 16, {1, 1, 96, 64}, causal));
  for (const std::string& tag : read_svg(bytes).tags) {
    const std::vector<std::string> allowed{"svg", "title", "desc", "rect", "g", "path", "text"};
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), tag), allowed.end()) << tag;
  }
  EXPECT_EQ(bytes.find("href"), std::string::npos);
  EXPECT_EQ(bytes.find("url("), std::string::npos);
}

TEST(Svg, EscapesTextAndReplacesBrokenBytes) {
  MaskPicture p = synthetic("a < b & \"c\" > ]]> </text><script>\x1b\xff\n", 4, 4, {}, causal);
  p.note = "head <0>";
  const DrawnSvg svg = read_svg(picture_svg(p));
  EXPECT_EQ(svg.title, "a < b & \"c\" > ]]> </text><script> \ufffd ");
  EXPECT_EQ(std::find(svg.tags.begin(), svg.tags.end(), "script"), svg.tags.end());
  read_svg(gallery_svg("<&>", {p, p}));
}

TEST(Svg, MergesEqualCells) {
  const DrawnSvg full =
      read_svg(picture_svg(synthetic("full", 128, 128, {1, 1, 32, 64}, [](int64_t, int64_t) { return true; })));
  EXPECT_EQ(full.boxes.size(), 2u) << "the plane and its swatch";
  // An upright stripe is one box, whatever lies beside it.
  const DrawnSvg stripes =
      read_svg(picture_svg(synthetic("stripes", 64, 64, {}, [](int64_t, int64_t kv) { return kv % 2 == 0; })));
  EXPECT_EQ(stripes.boxes.size(), 64u + 2u);
  const auto board = [](int64_t q, int64_t kv) { return (q + kv) % 2 == 0; };
  EXPECT_LT(picture_svg(synthetic("checkerboard", 128, 128, {1, 1, 32, 64}, board)).size(), 600u << 10)
      << "the worst case";
}

TEST(Svg, ZeroSizesSaySo) {
  for (const auto& [s_q, s_kv, text] :
       {std::tuple{0, 16, "empty: no queries"}, {16, 0, "empty: no keys"}, {0, 0, "empty: no queries and no keys"}}) {
    const MaskPicture p = synthetic("causal", s_q, s_kv, {1, 1, 96, 64}, causal);
    const DrawnSvg svg = read_svg(picture_svg(p));
    EXPECT_NE(std::find(svg.texts.begin(), svg.texts.end(), text), svg.texts.end()) << text;
    read_svg(gallery_svg("", {p}));
  }
}

TEST(Svg, LongTitlesAreWrappedAndElided) {
  std::string title = "full";
  for (int i = 0; i < 200; ++i) title += " & keys(0, 1000)";
  const DrawnSvg svg = read_svg(picture_svg(synthetic(title, 16, 16, {}, causal)));
  EXPECT_EQ(svg.title, title) << "whole where nobody must see it";
  int lines = 0;
  for (const std::string& text : svg.texts) {
    EXPECT_LE(static_cast<double>(text.size()) * advance_of(Letters::small), svg.width);
    lines += text.find("keys(0") != std::string::npos;
  }
  EXPECT_EQ(lines, 3);
}

TEST(Svg, GalleryNamesEveryPanel) {
  std::vector<MaskPicture> pictures;
  for (int i = 0; i < 7; ++i) {
    pictures.push_back(synthetic("window(" + std::to_string(i) + ", 0)", 16, 16, {},
                                 [i](int64_t q, int64_t kv) { return kv <= q && kv >= q - i; }));
    pictures.back().note = "panel " + std::to_string(i);
  }
  const DrawnSvg svg = read_svg(gallery_svg("Windows", pictures));
  for (const MaskPicture& p : pictures) {
    EXPECT_NE(std::find(svg.texts.begin(), svg.texts.end(), p.title), svg.texts.end());
    EXPECT_NE(std::find(svg.texts.begin(), svg.texts.end(), p.note), svg.texts.end());
  }
  EXPECT_EQ(svg.title, "Windows");
}

}  // namespace
}  // namespace anymask::cli
