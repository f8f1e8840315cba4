// Pictures in a terminal. Colour: a cell is two columns wide where that fits, else half a character (an upper half
// block, whose foreground is the upper cell and whose background the lower). Plain: one letter a cell, with a column
// between cells where that fits. Every cell has its own colour, so that pictures read the same on dark and light
// backgrounds.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cli/picture/label.h"
#include "cli/picture/palette.h"
#include "cli/terminal.h"

namespace anymask::cli {

namespace {

constexpr int64_t kWideRows = 34;       // more rows than this and cells are half a character
constexpr int64_t kMostCells = 128;     // a side, however wide the terminal
constexpr const char* kRamp = ":-=+*";  // shares between nothing and everything

// The nearest of the 6 x 6 x 6 cube (from 16 on) and the 24 grays (from 232 on) of the 256-colour palette.
int palette_256(Rgb c) {
  const auto level = [](int v) { return v < 48 ? 0 : v < 115 ? 1 : (v - 35) / 40; };
  const auto cube = [](int l) { return l == 0 ? 0 : 55 + 40 * l; };
  const auto distance = [&c](int r, int g, int b) {
    return (r - c.r) * (r - c.r) + (g - c.g) * (g - c.g) + (b - c.b) * (b - c.b);
  };
  const int r = level(c.r), g = level(c.g), b = level(c.b);
  const int gray = std::clamp(((c.r + c.g + c.b) / 3 - 3) / 10, 0, 23), gray_value = 8 + 10 * gray;
  return distance(gray_value, gray_value, gray_value) < distance(cube(r), cube(g), cube(b)) ? 232 + gray
                                                                                            : 16 + 36 * r + 6 * g + b;
}

// A line of coloured characters; escapes only where the colours change.
class ColorLine {
 public:
  explicit ColorLine(TextStyle style) : style_(style) {}
  void put(const char* text, std::optional<Rgb> foreground, std::optional<Rgb> background) {
    if (foreground && foreground != foreground_) text_ += escape(38, *foreground);
    if (background != background_) text_ += background ? escape(48, *background) : "\033[49m";
    if (foreground) foreground_ = foreground;
    background_ = background;
    text_ += text;
  }
  std::string finish() {
    if (foreground_ || background_) text_ += "\033[0m";
    return std::move(text_);
  }

 private:
  std::string escape(int target, Rgb c) const {
    return style_ == TextStyle::truecolor ? fmt::format("\033[{};2;{};{};{}m", target, c.r, c.g, c.b)
                                          : fmt::format("\033[{};5;{}m", target, palette_256(c));
  }
  TextStyle style_;
  std::string text_;
  std::optional<Rgb> foreground_, background_;
};

char letter_of(const MaskPicture& p, int64_t row, int64_t col) {
  const auto i = static_cast<size_t>(row * p.cols + col);
  const float share = p.share[i];
  const bool tiles = p.tile_q > 0;
  if (tiles && p.tile[i] == TileKind::full) return '#';
  if (tiles && p.tile[i] == TileKind::empty) return ' ';
  if (tiles && p.tile[i] == TileKind::mixed) return '%';
  if (share <= 0) return '.';
  if (share >= 1) return tiles ? 'x' : '#';
  return kRamp[std::min(4, static_cast<int>(share * 5))];
}

// Cells in lines of text; `wide`: two columns a cell.
std::vector<std::string> cell_lines(const MaskPicture& p, TextStyle style, bool wide) {
  std::vector<std::string> lines;
  const bool halves = style != TextStyle::plain && !wide;
  for (int64_t row = 0; row < p.rows; row += halves ? 2 : 1) {
    if (style == TextStyle::plain) {
      std::string line;
      for (int64_t col = 0; col < p.cols; ++col) {
        if (wide && col > 0)
          line += p.tile_q > 0 && letter_of(p, row, col) == '#' && letter_of(p, row, col - 1) == '#' ? '#' : ' ';
        line += letter_of(p, row, col);
      }
      lines.push_back(line);
      continue;
    }
    ColorLine line(style);
    for (int64_t col = 0; col < p.cols; ++col) {
      if (!halves) {
        line.put("  ", std::nullopt, cell_color(p, row, col));
      } else if (row + 1 < p.rows) {
        line.put("\u2580", cell_color(p, row, col), cell_color(p, row + 1, col));
      } else {
        line.put("\u2580", cell_color(p, row, col), std::nullopt);
      }
    }
    lines.push_back(line.finish());
  }
  return lines;
}

// Positions written over the columns where they stand; the last one ends at the right edge.
std::string key_axis(const MaskPicture& p, int64_t columns, int64_t columns_a_cell) {
  const auto label = static_cast<int64_t>(std::to_string(p.s_kv).size());
  const std::vector<int64_t> ticks = axis_ticks(p.s_kv, p.cell_kv == 1, std::max<int64_t>(2, columns / (label + 3)));
  std::string line(static_cast<size_t>(columns), ' ');
  for (size_t i = ticks.size(); i-- > 0;) {
    const std::string text = std::to_string(ticks[i]);
    const auto width = static_cast<int64_t>(text.size());
    const int64_t at = i > 0 && i + 1 == ticks.size() ? columns - width : ticks[i] / p.cell_kv * columns_a_cell;
    const auto begin = static_cast<size_t>(std::max<int64_t>(at - 1, 0)),
               end = static_cast<size_t>(std::min(at + width + 1, columns));
    if (at < 0 || at + width > columns || line.substr(begin, end - begin).find_first_not_of(' ') != std::string::npos)
      continue;
    line.replace(static_cast<size_t>(at), text.size(), text);
  }
  return line;
}

std::vector<std::string> query_labels(const MaskPicture& p, int64_t lines, int64_t rows_a_line) {
  std::vector<std::string> labels(static_cast<size_t>(lines));
  for (const int64_t q : axis_ticks(p.s_q, p.cell_q == 1, std::max<int64_t>(2, (lines + 3) / 3))) {
    labels[static_cast<size_t>(std::min(q / p.cell_q / rows_a_line, lines - 1))] = std::to_string(q);
  }
  return labels;
}

// Legend entries that occur, in lines of at most `columns`.
std::string legend(const MaskPicture& p, TextStyle style, int columns) {
  struct Entry {
    std::string letters;
    Rgb color;
    const char* name;
  };
  bool seen[4] = {}, between = false, none = false, all = false;
  for (size_t i = 0; i < p.share.size(); ++i) {
    seen[static_cast<size_t>(p.tile[i])] = true;
    if (p.tile_q > 0 && p.tile[i] != TileKind::partial) continue;
    (p.share[i] <= 0 ? none : p.share[i] >= 1 ? all : between) = true;
  }
  std::vector<Entry> entries;
  if (p.tile_q == 0) {
    if (all) entries.push_back({"#", kFull, "kept"});
    if (between) entries.push_back({kRamp, blend(kEmpty, kFull, 0.5f), "kept in part"});
    if (none) entries.push_back({".", kEmpty, "dropped"});
  } else {
    if (seen[static_cast<size_t>(TileKind::full)]) entries.push_back({"#", kFull, "full tile"});
    if (all) entries.push_back({"x", kPartialKept, "partial tile: kept"});
    if (between) entries.push_back({kRamp, blend(kPartialDropped, kPartialKept, 0.5f), "partial tile: kept in part"});
    if (none) entries.push_back({".", kPartialDropped, "partial tile: dropped"});
    if (seen[static_cast<size_t>(TileKind::mixed)])
      entries.push_back({"%", blend(kEmpty, kFull, 0.5f), "full and empty tiles"});
    if (seen[static_cast<size_t>(TileKind::empty)]) entries.push_back({"(blank)", kEmpty, "empty tile"});
  }
  std::string text;
  int64_t used = 0;
  for (const Entry& entry : entries) {
    std::string swatch = entry.letters;
    auto width = static_cast<int64_t>(swatch.size());
    if (style != TextStyle::plain) {
      ColorLine line(style);
      line.put("  ", std::nullopt, entry.color);
      swatch = line.finish();
      width = 2;
    }
    width += 1 + text_width(entry.name);
    if (used > 0 && used + 3 + width > columns) text += "\n", used = 0;
    if (used > 0) text += "   ", used += 3;
    text += swatch + " " + entry.name;
    used += width;
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

TextStyle stdout_text_style() {
  if (!color_on_stdout()) return TextStyle::plain;
  const char* promised = std::getenv("COLORTERM");
  const std::string color = promised ? promised : "";
  return color == "truecolor" || color == "24bit" ? TextStyle::truecolor : TextStyle::color256;
}

TextRoom text_room(TextStyle style, int columns) {
  const int64_t cols = std::clamp<int64_t>(columns - 12, 8, kMostCells);
  return {style == TextStyle::plain ? std::max<int64_t>(cols / 2, 8) : cols, cols};
}

std::string picture_text(const MaskPicture& p, TextStyle style, int columns) {
  columns = std::max(columns, 32);
  std::string text;
  const auto say = [&](const std::string& what, int64_t most) {
    for (const std::string& line : wrap(what, columns, most)) text += line + "\n";
  };
  say(p.title, 4);
  for (const std::string& fact : {p.note, kept_text(p), tiles_text(p), cells_text(p)}) say(fact, 3);
  if (p.rows * p.cols == 0) {
    say(nothing_text(p), 2);
    return text;
  }
  text += "\n";
  const int64_t margin = std::max<int64_t>(static_cast<int64_t>(std::to_string(p.s_q).size()), 1) + 2;
  const bool plain = style == TextStyle::plain;
  const bool wide = p.rows <= kWideRows && margin + 2 * p.cols + 2 <= columns;
  const std::vector<std::string> lines = cell_lines(p, style, wide);
  const int64_t cell_columns = wide ? 2 : 1, across = p.cols * cell_columns - (wide && plain ? 1 : 0);
  const std::string indent(static_cast<size_t>(margin), ' ');
  const auto trimmed = [](std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  };
  text += indent + "keys\n" + trimmed(fmt::format("{:>{}}  {}", "q", margin - 2, key_axis(p, across, cell_columns)));
  const std::string frame =
      plain ? fmt::format("{:>{}}{}+\n", "+", margin, std::string(static_cast<size_t>(across), '-')) : "";
  text += frame;
  const std::vector<std::string> labels = query_labels(p, static_cast<int64_t>(lines.size()), plain || wide ? 1 : 2);
  for (size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format("{:>{}} {}{}{}\n", labels[i], margin - 2, plain ? "|" : " ", lines[i], plain ? "|" : "");
  }
  return text + frame + legend(p, style, columns);
}

std::string mask_picture_text(const MaskPicture& picture, TextStyle style) {
  MaskPicture bare = picture;
  bare.tile_q = bare.tile_kv = 0;
  std::string text;
  for (const std::string& line : cell_lines(bare, style, false)) text += line + "\n";
  return text;
}

}  // namespace anymask::cli
