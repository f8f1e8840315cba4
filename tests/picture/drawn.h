// What was drawn, read back: SVG by a small strict XML reader, PNG by libpng.
#pragma once

#include <string>
#include <vector>

#include "cli/picture/canvas.h"

namespace anymask::cli {

struct DrawnBox {
  Box box;
  Rgb color;
};
struct DrawnSvg {
  double width = 0, height = 0;
  std::string title, description;
  std::vector<DrawnBox> boxes;     // in the order of drawing
  std::vector<std::string> texts;  // of <text>, entities resolved
  std::vector<std::string> tags;   // every element's name
};
// Throws std::runtime_error where the bytes are not well-formed XML, hold broken UTF-8, or are not what SvgCanvas may
// write.
DrawnSvg read_svg(const std::string& bytes);

struct DrawnPng {
  int width = 0, height = 0;
  std::vector<Rgb> pixels;            // [height, width]
  Rgb at(double x, double y) const {  // in units of the canvas: two pixels each
    return pixels[static_cast<size_t>(static_cast<int>(y * 2) * width + static_cast<int>(x * 2))];
  }
};
// Throws std::runtime_error where libpng refuses the bytes.
DrawnPng read_png(const std::string& bytes);

// The box that all cells fill: legend swatches (12 units high) and the background aside.
Box plot_of(const DrawnSvg& svg);

}  // namespace anymask::cli
