// Pictures in a terminal, letter by letter.
#include <gtest/gtest.h>

#include "cli/picture/label.h"
#include "tests/picture/synthetic.h"

namespace anymask::cli {
namespace {

bool causal(int64_t q, int64_t kv) { return kv <= q; }

TEST(Text, SmallMaskExactly) {
  EXPECT_EQ(picture_text(synthetic("causal", 4, 4, {1, 1, 96, 64}, causal), TextStyle::plain, 80),
            "causal\n"
            "keeps 62.5% of 16 pairs (4 queries x 4 keys)\n"
            "tiles of 96 queries x 64 keys: 0 full, 1 partial, 0 empty\n"
            "\n"
            "   keys\n"
            "q  0     3\n"
            "  +-------+\n"
            "0 |x . . .|\n"
            "  |x x . .|\n"
            "  |x x x .|\n"
            "3 |x x x x|\n"
            "  +-------+\n"
            "x partial tile: kept   . partial tile: dropped\n");
}

TEST(Text, TileKindsExactly) {
  EXPECT_EQ(picture_text(synthetic("causal", 6, 6, {1, 1, 2, 2}, causal), TextStyle::plain, 60),
            "causal\n"
            "keeps 58.3% of 36 pairs (6 queries x 6 keys)\n"
            "tiles of 2 queries x 2 keys: 3 full, 3 partial, 3 empty\n"
            "\n"
            "   keys\n"
            "q  0         5\n"
            "  +-----------+\n"
            "0 |x .        |\n"
            "  |x x        |\n"
            "  |### x .    |\n"
            "  |### x x    |\n"
            "  |####### x .|\n"
            "5 |####### x x|\n"
            "  +-----------+\n"
            "# full tile   x partial tile: kept   . partial tile: dropped\n"
            "(blank) empty tile\n");
}

TEST(Text, ListingPictureExactly) {
  EXPECT_EQ(mask_picture_text(synthetic("causal", 3, 3, {1, 1, 96, 64}, causal), TextStyle::plain), "#..\n##.\n###\n");
  EXPECT_EQ(mask_picture_text(synthetic("causal", 2, 2, {}, causal), TextStyle::truecolor),
            "\033[38;2;27;75;145m\033[48;2;27;75;145m\u2580\033[38;2;233;236;240m\u2580\033[0m\n");
  EXPECT_EQ(mask_picture_text(synthetic("causal", 1, 1, {}, causal), TextStyle::color256),
            "\033[38;5;24m\u2580\033[0m\n");
}

TEST(Text, SharesHaveFiveLetters) {
  // 10 cells of 10 pairs, the first keeping none, the last nine of ten.
  const MaskPicture p =
      synthetic("shares", 1, 100, {1, 10, 96, 128}, [](int64_t, int64_t kv) { return kv % 10 < kv / 10; });
  EXPECT_EQ(mask_picture_text(p, TextStyle::plain), ".:--==++**\n");
}

TEST(Text, ZeroSizesSaySo) {
  EXPECT_EQ(picture_text(synthetic("causal", 0, 4, {1, 1, 96, 64}, causal), TextStyle::plain, 80),
            "causal\n"
            "keeps 0.0% of 0 pairs (0 queries x 4 keys)\n"
            "tiles of 96 queries x 64 keys: 0 full, 0 partial, 0 empty\n"
            "empty: no queries\n");
  EXPECT_EQ(mask_picture_text(synthetic("causal", 4, 0, {}, causal), TextStyle::truecolor), "");
}

// A line's columns: code points but for escape sequences.
int64_t columns_of(std::string line) {
  for (size_t at; (at = line.find('\033')) != std::string::npos;) line.erase(at, line.find('m', at) - at + 1);
  return text_width(line);
}

TEST(Text, FitsTheColumnsInEveryStyle) {
  std::string title = "causal";
  for (int i = 0; i < 60; ++i) title += " | keys(0, 4)";
  for (const int columns : {32, 80, 133}) {
    for (const TextStyle style : {TextStyle::plain, TextStyle::color256, TextStyle::truecolor}) {
      const TextRoom room = text_room(style, columns);
      for (const int64_t side : {int64_t{1}, int64_t{7}, room.max_rows, room.max_cols}) {
        const MaskPicture p = synthetic(title, std::min(side, room.max_rows) * 100, side, {100, 1, 96, 64}, causal);
        const std::string text = picture_text(p, style, columns);
        ASSERT_EQ(text.back(), '\n');
        for (size_t begin = 0; begin < text.size();) {
          const size_t end = text.find('\n', begin);
          EXPECT_LE(columns_of(text.substr(begin, end - begin)), columns) << text.substr(begin, end - begin);
          begin = end + 1;
        }
      }
    }
  }
}

TEST(Text, PlainHoldsNoEscapesWhateverTheTitle) {
  MaskPicture p = synthetic("evil\033[2J\x07", 4, 4, {}, causal);
  p.note = "\033]0;x\x07";
  for (const char c : picture_text(p, TextStyle::plain, 80)) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f));
}

TEST(Text, ColorEndsWithEveryLine) {
  const std::string text = picture_text(synthetic("causal", 40, 40, {1, 1, 8, 16}, causal), TextStyle::truecolor, 60);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const size_t last = line.rfind("\033[");
    if (last != std::string::npos) {
      EXPECT_EQ(line.substr(last, 4), "\033[0m") << line;
    }
    begin = end + 1;
  }
}

}  // namespace
}  // namespace anymask::cli
