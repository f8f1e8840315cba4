// Words and numbers on pictures: broken text made printable, lines wrapped and cut, positions along axes.
#include "cli/picture/label.h"

#include <gtest/gtest.h>

namespace anymask::cli {
namespace {

TEST(Label, KeepsGoodTextAndReplacesWhatIsBroken) {
  EXPECT_EQ(printable("causal & documents(@cu)"), "causal & documents(@cu)");
  EXPECT_EQ(printable("@gr\u00f6\u00dfe \u4e2d \U0001F600"), "@gr\u00f6\u00dfe \u4e2d \U0001F600");
  EXPECT_EQ(printable("a\x1b[31mb\n\tc\x7f"), "a [31mb  c ");  // control characters
  EXPECT_EQ(printable("a\xff"
                      "b\xc3"),
            "a\ufffd"
            "b\ufffd");                                                  // a stray byte, a cut sequence
  EXPECT_EQ(printable("\xc0\x80\xed\xa0\x80"), "\ufffd\ufffd\ufffd");    // overlong, surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80\xef\xbf\xbe"), "\ufffd\ufffd");  // beyond Unicode, noncharacter
  EXPECT_EQ(text_width("gr\u00f6\u00dfe"), 5);
}

TEST(Label, ElidesToTheWidthExactly) {
  EXPECT_EQ(elide("abcdef", 6), "abcdef");
  EXPECT_EQ(elide("abcdefg", 6), "abc...");
  EXPECT_EQ(elide("\u00e4\u00e4\u00e4\u00e4\u00e4", 4), "\u00e4...");
  EXPECT_EQ(elide("abcdefg", 2), "..");
}

TEST(Label, WrapsAfterSpacesAndCommas) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrap("causal & window(3, 0)", 100, 3), Lines{"causal & window(3, 0)"});
  EXPECT_EQ(wrap("causal & window(3, 0)", 12, 3), (Lines{"causal &", "window(3, 0)"}));
  EXPECT_EQ(wrap("[1,2,3,4,5,6]", 8, 3), (Lines{"[1,2,3,", "4,5,6]"}));
  EXPECT_EQ(wrap("keeps 1,234,567 pairs", 12, 3), (Lines{"keeps", "1,234,567", "pairs"})) << "spaces before commas";
  EXPECT_EQ(wrap("abcdefghij", 4, 5), (Lines{"abcd", "efgh", "ij"}));
  EXPECT_EQ(wrap("abcdefghij", 4, 2), (Lines{"abcd", "e..."})) << "the last line allowed is elided";
  EXPECT_EQ(wrap("", 4, 2), Lines{});
  for (const std::string& line : wrap(std::string(1000, 'x') + " " + std::string(1000, ','), 17, 9))
    EXPECT_LE(text_width(line), 17);
}

TEST(Label, TicksStartAtZeroAndEndAtTheEnd) {
  using Ticks = std::vector<int64_t>;
  EXPECT_EQ(axis_ticks(16, true, 20), (Ticks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(axis_ticks(16, true, 6), (Ticks{0, 4, 8, 12, 15}));
  EXPECT_EQ(axis_ticks(4096, false, 10), (Ticks{0, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096}));
  EXPECT_EQ(axis_ticks(100000, false, 10), (Ticks{0, 20000, 40000, 60000, 80000, 100000}));
  EXPECT_EQ(axis_ticks(1003, false, 8), (Ticks{0, 200, 400, 600, 800, 1003})) << "1000 gives way to 1003";
  EXPECT_EQ(axis_ticks(1, true, 10), Ticks{0});
  EXPECT_EQ(axis_ticks(1, false, 10), (Ticks{0, 1}));
  EXPECT_EQ(axis_ticks(777, false, 1), (Ticks{0, 777}));
  for (int64_t length = 1; length < 3000; length += 7) {
    for (int64_t room = 2; room < 24; ++room) {
      const Ticks ticks = axis_ticks(length, false, room);
      EXPECT_LE(static_cast<int64_t>(ticks.size()), room) << length;
      EXPECT_EQ(ticks.back(), length);
      for (size_t i = 1; i < ticks.size(); ++i) EXPECT_LT(ticks[i - 1], ticks[i]);
    }
  }
  EXPECT_EQ(axis_ticks(int64_t{1} << 60, false, 5).back(), int64_t{1} << 60);
}

TEST(Label, ValueTicksCoverTheHighest) {
  EXPECT_EQ(value_ticks(118, 7), (std::vector<double>{0, 20, 40, 60, 80, 100, 120}));
  EXPECT_EQ(value_ticks(100, 6), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(value_ticks(0, 7), (std::vector<double>{0, 1}));
  for (double highest = 1e-6; highest < 1e9; highest *= 1.7) {
    const auto ticks = value_ticks(highest, 7);
    EXPECT_GE(ticks.back(), highest * (1 - 1e-9));
    EXPECT_LE(ticks.size(), 7u) << highest;
    EXPECT_GE(ticks.size(), 3u) << highest;
  }
  EXPECT_EQ(short_number(98.24), "98.2");
  EXPECT_EQ(short_number(1068), "1068");
  EXPECT_EQ(short_number(0), "0");
}

}  // namespace
}  // namespace anymask::cli
