// PNG: 8-bit RGB, two pixels to a unit, letters from font.h.
#include <png.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cli/picture/canvas.h"
#include "cli/picture/font.h"
#include "cli/picture/label.h"

namespace anymask::cli {

namespace {

constexpr int kScale = 2;  // pixels a unit

class PngCanvas final : public Canvas {
 public:
  PngCanvas(double width, double height)
      : width_(pixel(width)),
        height_(pixel(height)),
        pixels_(static_cast<size_t>(width_) * static_cast<size_t>(height_), kPaper) {}

  void boxes(const std::vector<Box>& boxes, Rgb color) override {
    for (const Box& b : boxes) fill(pixel(b.x), pixel(b.y), pixel(b.x + b.width), pixel(b.y + b.height), color);
  }

  void line(double x0, double y0, double x1, double y1, double thickness, Rgb color, bool dashed) override {
    const int wide = std::max(1, pixel(thickness));
    const bool vertical = x0 == x1;
    const int across = pixel(vertical ? x0 : y0) - wide / 2;
    const int begin = pixel(vertical ? std::min(y0, y1) : std::min(x0, x1)),
              end = pixel(vertical ? std::max(y0, y1) : std::max(x0, x1));
    const int dash = dashed ? 4 * kScale : std::max(end - begin, 1);
    for (int at = begin; at < end; at += dashed ? 2 * dash : dash) {
      const int stop = std::min(at + dash, end);
      if (vertical) {
        fill(across, at, across + wide, stop, color);
      } else {
        fill(at, across, stop, across + wide, color);
      }
    }
  }

  void text(double x, double y, std::string_view text, Letters letters, Anchor anchor, Rgb color) override {
    const int size = letters == Letters::small ? kScale : 3 * kScale / 2;  // pixels a dot
    const int bold = letters == Letters::small ? 0 : 1;  // and one more across where letters are large
    const auto points = code_points(text);
    const int width = static_cast<int>(points.size()) * kGlyphAdvance * size;
    int left = pixel(x) - (anchor == Anchor::left ? 0 : anchor == Anchor::middle ? width / 2 : width - size);
    const int top = pixel(y) - kGlyphBaseline * size;
    for (const char32_t point : points) {
      const Glyph& glyph = glyph_of(point);
      for (int row = 0; row < kGlyphRows; ++row) {
        for (int col = 0; col < kGlyphCols; ++col) {
          if (!(glyph[static_cast<size_t>(row)] >> (kGlyphCols - 1 - col) & 1)) continue;
          fill(left + col * size, top + row * size, left + (col + 1) * size + bold, top + (row + 1) * size, color);
        }
      }
      left += kGlyphAdvance * size;
    }
  }

  // libpng's simplified writer: errors come back as values. It stores no text, so title and description have no place
  // here.
  std::string finish(const std::string&, const std::string&) override {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(width_);
    image.height = static_cast<png_uint_32>(height_);
    image.format = PNG_FORMAT_RGB;
    static_assert(sizeof(Rgb) == 3);
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    std::string bytes(size, '\0');
    if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels_.data(), 0, nullptr)) {
      throw std::runtime_error(std::string("png: ") + image.message);
    }
    bytes.resize(size);
    return bytes;
  }

 private:
  static int pixel(double units) { return static_cast<int>(std::lround(units * kScale)); }

  void fill(int x0, int y0, int x1, int y1, Rgb color) {
    x0 = std::clamp(x0, 0, width_), x1 = std::clamp(x1, 0, width_), y0 = std::clamp(y0, 0, height_),
    y1 = std::clamp(y1, 0, height_);
    for (int y = y0; y < y1; ++y) {
      const auto row = pixels_.begin() + static_cast<std::ptrdiff_t>(y) * width_;
      if (x0 < x1) std::fill(row + x0, row + x1, color);
    }
  }

  int width_, height_;
  std::vector<Rgb> pixels_;  // [height_, width_]
};

}  // namespace

std::unique_ptr<Canvas> png_canvas(double width, double height) { return std::make_unique<PngCanvas>(width, height); }

}  // namespace anymask::cli
