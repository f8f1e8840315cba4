// The colours of pictures. Blue and orange of clearly different lightness stay apart for every common colour blindness,
// in print and on dark and light backgrounds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cli/picture/picture.h"

namespace anymask::cli {

struct Rgb {
  uint8_t r, g, b;
  friend auto operator<=>(const Rgb&, const Rgb&) = default;
};

inline constexpr Rgb kInk{0x1f, 0x25, 0x2e}, kFaintInk{0x5b, 0x64, 0x70}, kPaper{0xff, 0xff, 0xff};
inline constexpr Rgb kFrame{0x8a, 0x92, 0x9c}, kGrid{0xb0, 0xb7, 0xc0}, kGuide{0xd9, 0xdd, 0xe2};
inline constexpr Rgb kFull{0x1b, 0x4b, 0x91},
    kEmpty{0xe9, 0xec, 0xf0};  // whole tiles, and pairs where no tiles are drawn
inline constexpr Rgb kPartialKept{0xd9, 0x6c, 0x06}, kPartialDropped{0xfd, 0xe2, 0xbd};  // pairs of PARTIAL tiles

// Shades between two colours: enough to read a gradient, few enough that neighbours merge into one rectangle.
inline constexpr int kShades = 24;

inline Rgb blend(Rgb a, Rgb b, float share) {
  const auto mix = [share](uint8_t x, uint8_t y) {
    return static_cast<uint8_t>(static_cast<float>(x) + (static_cast<float>(y) - static_cast<float>(x)) * share + 0.5f);
  };
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

// A share of 0 or 1 alone has the first or last shade: little is told from nothing.
inline float shade(float share) {
  if (share <= 0) return 0;
  if (share >= 1) return 1;
  const int step = std::clamp(static_cast<int>(share * kShades + 0.5f), 1, kShades - 1);
  return static_cast<float>(step) / kShades;
}

inline Rgb cell_color(const MaskPicture& picture, int64_t row, int64_t col) {
  const auto i = static_cast<size_t>(row * picture.cols + col);
  const float share = shade(picture.share[i]);
  if (picture.tile_q == 0) return blend(kEmpty, kFull, share);
  switch (picture.tile[i]) {
    case TileKind::empty:
      return kEmpty;
    case TileKind::full:
      return kFull;
    case TileKind::mixed:
      return blend(kEmpty, kFull, share);
    case TileKind::partial:
      break;
  }
  return blend(kPartialDropped, kPartialKept, share);
}

}  // namespace anymask::cli
