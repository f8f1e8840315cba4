// Words and numbers on a picture: made printable, wrapped, cut, and put along an axis.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/picture/picture.h"

namespace anymask::cli {

// The code points of UTF-8 text that are fit to print: U+FFFD in place of broken bytes, a space in place of control
// characters.
std::vector<char32_t> code_points(std::string_view text);
std::string to_utf8(const std::vector<char32_t>& points);
std::string printable(std::string_view text);
// Code points, each of which takes one column here.
int64_t text_width(std::string_view text);

// At most `width` code points; what was longer ends in "...".
std::string elide(std::string_view text, int64_t width);
// Lines of at most `width` code points, broken after spaces and commas where there are any; text beyond `max_lines` is
// elided.
std::vector<std::string> wrap(std::string_view text, int64_t width, int64_t max_lines);

// Positions to write along an axis of `length` positions, ascending, from 0 to length - 1 (`elements`: positions name
// pairs) or to length (they name edges). `room`: how many fit, the first and last included.
std::vector<int64_t> axis_ticks(int64_t length, bool elements, int64_t room);
// Round values from 0 up to the first at or above `highest`, at most `room` of them, for an axis of measurements.
std::vector<double> value_ticks(double highest, int64_t room);
std::string short_number(double value);  // 3 significant digits, no exponent below a million

// "keeps 34.1% of 256 pairs" and so on: what every picture says about itself, a fact each.
std::string kept_text(const MaskPicture& picture);
std::string tiles_text(const MaskPicture& picture);
std::string cells_text(const MaskPicture& picture);  // "" where cells are pairs
// What a picture without cells says in their place.
std::string nothing_text(const MaskPicture& picture);

}  // namespace anymask::cli
