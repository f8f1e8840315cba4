#include "cli/picture/label.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/terminal.h"

namespace anymask::cli {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Bytes a sequence takes by its first byte, 0 if none begins so.
int sequence_length(unsigned char byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte < 0xE0) return 2;
  if (byte >= 0xE0 && byte < 0xF0) return 3;
  if (byte >= 0xF0 && byte < 0xF5) return 4;
  return 0;
}

bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x200B && point <= 0x200F) ||
         (point >= 0x2028 && point <= 0x202E);
}

// "1 query", "2,048 keys".
std::string counted(int64_t count, const char* one, const char* many) {
  return human_count(count) + " " + (count == 1 ? one : many);
}
std::string queries(int64_t count) { return counted(count, "query", "queries"); }
std::string keys(int64_t count) { return counted(count, "key", "keys"); }

}  // namespace

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  size_t i = 0;
  while (i < text.size()) {
    const auto first = static_cast<unsigned char>(text[i]);
    const int length = sequence_length(first);
    char32_t point = length == 1 ? first : length == 2 ? first & 0x1F : length == 3 ? first & 0x0F : first & 0x07;
    int taken = length == 0 ? 0 : 1;
    while (taken > 0 && taken < length && i + static_cast<size_t>(taken) < text.size()) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(taken)]);
      if ((next & 0xC0) != 0x80) break;
      point = (point << 6) | (next & 0x3F);
      ++taken;
    }
    const bool whole = length > 0 && taken == length;
    // Overlong forms, surrogates, the two noncharacters XML forbids and what lies beyond Unicode are as broken as a
    // stray byte.
    const bool valid = whole && !(length == 3 && point < 0x800) &&
                       !(length == 4 && (point < 0x10000 || point > 0x10FFFF)) &&
                       !(point >= 0xD800 && point < 0xE000) && point != 0xFFFE && point != 0xFFFF;
    points.push_back(!valid ? kReplacement : is_control(point) ? U' ' : point);
    i += static_cast<size_t>(std::max(taken, 1));
  }
  return points;
}

std::string to_utf8(const std::vector<char32_t>& points) {
  std::string text;
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  for (const char32_t c : points) {
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | (c >> 6)), put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
    }
  }
  return text;
}

std::string printable(std::string_view text) { return to_utf8(code_points(text)); }

int64_t text_width(std::string_view text) { return static_cast<int64_t>(code_points(text).size()); }

std::string elide(std::string_view text, int64_t width) {
  std::vector<char32_t> points = code_points(text);
  if (static_cast<int64_t>(points.size()) > width) {
    const auto dots = static_cast<size_t>(std::min<int64_t>(3, width));
    points.resize(static_cast<size_t>(width) - dots);
    points.insert(points.end(), dots, U'.');
  }
  return to_utf8(points);
}

std::vector<std::string> wrap(std::string_view text, int64_t width, int64_t max_lines) {
  std::vector<char32_t> rest = code_points(text);
  std::vector<std::string> lines;
  const auto columns = static_cast<size_t>(std::max<int64_t>(width, 1));
  while (!rest.empty()) {
    if (rest.size() <= columns || static_cast<int64_t>(lines.size()) + 1 >= max_lines) {
      lines.push_back(elide(to_utf8(rest), static_cast<int64_t>(columns)));
      break;
    }
    // Break after the last space that fits (one just beyond fits too), or else comma, unless much of the line would be
    // empty.
    size_t cut = 0;
    for (size_t i = columns; cut == 0 && i > columns / 4; --i) {
      if (rest[i] == U' ') cut = i;
    }
    for (size_t i = columns; cut == 0 && i > columns / 2; --i) {
      if (rest[i - 1] == U',') cut = i;
    }
    if (cut == 0) cut = columns;
    lines.push_back(to_utf8({rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(cut)}));
    while (cut < rest.size() && rest[cut] == U' ') ++cut;
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(cut));
  }
  return lines;
}

std::vector<int64_t> axis_ticks(int64_t length, bool elements, int64_t room) {
  const int64_t last = elements ? length - 1 : length;
  if (last <= 0) return {0};
  if (room <= 2) return {0, last};
  // Lengths made of powers of two get steps that are powers of two, others 1, 2, 5, 10, 20 ...
  const int64_t low_bit = length & -length;
  const bool binary = length / low_bit <= 16;
  int64_t step = 1;
  int64_t decade = 1;
  for (int turn = 0; last / step + 1 > room - 1; ++turn) {
    if (binary) {
      step *= 2;
    } else {
      if (turn % 3 == 2) decade *= 10;
      step = turn % 3 == 0 ? 2 * decade : turn % 3 == 1 ? 5 * decade : decade;
    }
  }
  std::vector<int64_t> ticks;
  for (int64_t at = 0; at < last; at += step) ticks.push_back(at);
  // The end is always written; a step too close to it gives way.
  if (ticks.size() > 1 && last - ticks.back() < step - step / 4) ticks.pop_back();
  ticks.push_back(last);
  return ticks;
}

std::vector<double> value_ticks(double highest, int64_t room) {
  if (!(highest > 0) || !std::isfinite(highest)) return {0, 1};
  const double steps = static_cast<double>(std::max<int64_t>(room - 1, 1));
  double step = std::pow(10.0, std::floor(std::log10(highest / steps)));
  for (int turn = 0; step * steps < highest * (1 - 1e-9); ++turn) step *= turn % 3 == 1 ? 2.5 : 2.0;
  std::vector<double> ticks;
  for (int i = 0; i == 0 || ticks.back() < highest * (1 - 1e-9); ++i) ticks.push_back(step * i);
  return ticks;
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return fmt::format("{:.3g}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string kept_text(const MaskPicture& picture) {
  return fmt::format("keeps {} of {} ({} x {})", percent(picture.kept_share()), counted(picture.pairs, "pair", "pairs"),
                     queries(picture.s_q), keys(picture.s_kv));
}

std::string tiles_text(const MaskPicture& picture) {
  if (picture.tile_q == 0) return "";
  return fmt::format("tiles of {} x {}{}: {} full, {} partial, {} empty", queries(picture.tile_q),
                     keys(picture.tile_kv), picture.transposed ? " (for dK and dV)" : "",
                     human_count(picture.full_tiles), human_count(picture.partial_tiles),
                     human_count(picture.empty_tiles));
}

std::string cells_text(const MaskPicture& picture) {
  if (picture.elements() || picture.rows * picture.cols == 0) return "";
  return fmt::format("a cell is {} x {}, shaded by its kept share", queries(picture.cell_q), keys(picture.cell_kv));
}

std::string nothing_text(const MaskPicture& picture) {
  if (picture.s_q == 0 && picture.s_kv == 0) return "empty: no queries and no keys";
  return picture.s_q == 0 ? "empty: no queries" : "empty: no keys";
}

}  // namespace anymask::cli
