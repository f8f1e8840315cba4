// What a picture is drawn on. Units are SVG pixels; PNG has two pixels to a unit, so that its bitmap letters stay small
// and sharp.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/picture/palette.h"

namespace anymask::cli {

struct Box {
  double x, y, width, height;
};
enum class Anchor : uint8_t { left, middle, right };

// One family of letters of fixed advance, in two sizes. `y` of text is its baseline.
enum class Letters : uint8_t { small, large };
inline constexpr double advance_of(Letters letters) { return letters == Letters::small ? 6 : 9; }
inline constexpr double line_of(Letters letters) { return letters == Letters::small ? 15 : 20; }

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void boxes(const std::vector<Box>& boxes, Rgb color) = 0;
  // A horizontal or vertical line of `thickness` units, centred on its coordinates. Dashes are 4 units long.
  virtual void line(double x0, double y0, double x1, double y1, double thickness, Rgb color, bool dashed = false) = 0;
  virtual void text(double x, double y, std::string_view text, Letters letters, Anchor anchor, Rgb color) = 0;
  // The file's bytes. `title` and `description` are for those who cannot see it.
  virtual std::string finish(const std::string& title, const std::string& description) = 0;
};

std::unique_ptr<Canvas> svg_canvas(double width, double height);
std::unique_ptr<Canvas> png_canvas(double width, double height);

}  // namespace anymask::cli
