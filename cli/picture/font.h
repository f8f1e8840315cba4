// Letters for PNG: 5 x 7 dots on the baseline and two rows below it for descenders, printable ASCII.
#pragma once

#include <array>
#include <cstdint>

namespace anymask::cli {

inline constexpr int kGlyphCols = 5, kGlyphRows = 9, kGlyphAdvance = 6;
inline constexpr int kGlyphBaseline = 7;  // rows above the baseline

using Glyph = std::array<uint8_t, kGlyphRows>;  // rows from the top; the leftmost dot is bit 4

// A hollow box stands for what has no glyph.
const Glyph& glyph_of(char32_t point);

}  // namespace anymask::cli
