// SVG 1.1: paths for boxes (one a colour), lines, text. Self-contained: no script, no style sheet, no reference to
// anything.
#include <fmt/format.h>

#include <cmath>

#include "cli/picture/canvas.h"
#include "cli/picture/label.h"

namespace anymask::cli {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Hundredths of a pixel at most, without trailing zeros.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string hex(Rgb c) { return fmt::format("#{:02x}{:02x}{:02x}", c.r, c.g, c.b); }

class SvgCanvas final : public Canvas {
 public:
  SvgCanvas(double width, double height) : width_(width), height_(height) {}

  void boxes(const std::vector<Box>& boxes, Rgb color) override {
    if (boxes.empty()) return;
    body_ += fmt::format("<path fill=\"{}\" d=\"", hex(color));
    for (const Box& b : boxes) {
      body_ += fmt::format("M{} {}h{}v{}h{}z", number(b.x), number(b.y), number(b.width), number(b.height),
                           number(-b.width));
    }
    body_ += "\"/>\n";
  }

  void line(double x0, double y0, double x1, double y1, double thickness, Rgb color, bool dashed) override {
    // Hairlines lie on whole pixels: where one would straddle two, its neighbours come out of different thickness.
    const auto snap = [thickness](double v) { return thickness == 1 ? std::floor(v) + 0.5 : v; };
    if (x0 == x1) {
      x0 = x1 = snap(x0);
    } else {
      y0 = y1 = snap(y0);
    }
    body_ +=
        fmt::format("<path stroke=\"{}\" stroke-width=\"{}\"{} d=\"M{} {}L{} {}\"/>\n", hex(color), number(thickness),
                    dashed ? " stroke-dasharray=\"4 4\"" : "", number(x0), number(y0), number(x1), number(y1));
  }

  void text(double x, double y, std::string_view text, Letters letters, Anchor anchor, Rgb color) override {
    // Monospaced letters advance by 0.6 of their size. xml:space keeps runs of spaces.
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}{} fill=\"{}\" xml:space=\"preserve\">{}</text>\n",
                         number(x), number(y), number(advance_of(letters) / 0.6),
                         letters == Letters::large ? " font-weight=\"bold\"" : "",
                         anchor == Anchor::left     ? ""
                         : anchor == Anchor::middle ? " text-anchor=\"middle\""
                                                    : " text-anchor=\"end\"",
                         hex(color), escaped(text));
  }

  std::string finish(const std::string& title, const std::string& description) override {
    const std::string w = number(width_), h = number(height_);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
        "<title>{2}</title>\n<desc>{3}</desc>\n<rect width=\"{0}\" height=\"{1}\" fill=\"{4}\"/>\n"
        "<g shape-rendering=\"crispEdges\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, "
        "monospace\">\n{5}</g>\n</svg>\n",
        w, h, escaped(title), escaped(description), hex(kPaper), body_);
  }

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace

std::unique_ptr<Canvas> svg_canvas(double width, double height) { return std::make_unique<SvgCanvas>(width, height); }

}  // namespace anymask::cli
