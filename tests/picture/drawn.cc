#include "tests/picture/drawn.h"

#include <png.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "cli/picture/label.h"

namespace anymask::cli {

namespace {

class SvgReader {
 public:
  explicit SvgReader(const std::string& bytes) : bytes_(bytes) {}

  DrawnSvg read() {
    check_characters();
    element();
    skip_space();
    if (at_ != bytes_.size()) fail("something after the root element");
    return svg_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("svg, byte " + std::to_string(at_) + ": " + what);
  }
  // printable() keeps good text as it is, line ends aside.
  void check_characters() const {
    std::string text = bytes_;
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (printable(text) != text) fail("broken UTF-8 or a control character");
  }
  bool looking_at(const std::string& text) const { return bytes_.compare(at_, text.size(), text) == 0; }
  void expect(const std::string& text) {
    if (!looking_at(text)) fail("expected " + text);
    at_ += text.size();
  }
  void skip_space() {
    while (at_ < bytes_.size() && std::isspace(static_cast<unsigned char>(bytes_[at_]))) ++at_;
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < bytes_.size() &&
           (std::isalnum(static_cast<unsigned char>(bytes_[at_])) || bytes_[at_] == '-' || bytes_[at_] == ':'))
      ++at_;
    if (at_ == begin) fail("expected a name");
    return bytes_.substr(begin, at_ - begin);
  }
  // Up to the character `end`, entities resolved; neither < nor a lone & may stand there.
  std::string characters(char end) {
    std::string text;
    while (at_ < bytes_.size() && bytes_[at_] != end) {
      if (bytes_[at_] == '<') fail("a < in text");
      if (bytes_[at_] != '&') {
        text += bytes_[at_++];
        continue;
      }
      const size_t stop = bytes_.find(';', at_);
      static const std::map<std::string, char> entities{{"&amp", '&'}, {"&lt", '<'}, {"&gt", '>'}, {"&quot", '"'}};
      const auto entity = entities.find(bytes_.substr(at_, stop - at_));
      if (stop == std::string::npos || entity == entities.end()) fail("an unknown entity");
      text += entity->second;
      at_ = stop + 1;
    }
    if (at_ == bytes_.size()) fail("an unexpected end");
    return text;
  }

  void element() {
    skip_space();
    expect("<");
    const std::string tag = name();
    svg_.tags.push_back(tag);
    std::map<std::string, std::string> attributes;
    for (;;) {
      const size_t before = at_;
      skip_space();
      if (looking_at(">") || looking_at("/>")) break;
      if (at_ == before) fail("expected a space before an attribute");
      const std::string key = name();
      expect("=\"");
      if (!attributes.emplace(key, characters('"')).second) fail("an attribute twice");
      ++at_;
    }
    take(tag, attributes);
    if (looking_at("/>")) {
      at_ += 2;
      return;
    }
    ++at_;
    std::string text;
    for (;;) {
      text += characters('<');
      if (looking_at("</")) break;
      element();
    }
    expect("</" + tag + ">");
    if (tag == "title") svg_.title = text;
    if (tag == "desc") svg_.description = text;
    if (tag == "text") svg_.texts.push_back(text);
  }

  static Rgb color_of(const std::string& hex) {
    const auto value = std::strtoul(hex.substr(1).c_str(), nullptr, 16);
    return {static_cast<uint8_t>(value >> 16), static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
  }

  void take(const std::string& tag, const std::map<std::string, std::string>& attributes) {
    if (tag == "svg") svg_.width = std::stod(attributes.at("width")), svg_.height = std::stod(attributes.at("height"));
    if (tag != "path" || !attributes.contains("fill")) return;
    // Boxes alone: M x y, h width, v height, h back, z; repeated.
    const std::string& d = attributes.at("d");
    const char* from = d.c_str();
    const auto number = [&](char before) {
      if (*from++ != before) fail("a path that is no list of boxes");
      char* end = nullptr;
      const double value = std::strtod(from, &end);
      if (end == from) fail("expected a number in a path");
      from = end;
      return value;
    };
    while (*from) {
      Box box{};
      box.x = number('M'), box.y = number(' '), box.width = number('h'), box.height = number('v');
      if (number('h') != -box.width || *from++ != 'z') fail("a box that does not close");
      svg_.boxes.push_back({box, color_of(attributes.at("fill"))});
    }
  }

  const std::string& bytes_;
  size_t at_ = 0;
  DrawnSvg svg_;
};

}  // namespace

DrawnSvg read_svg(const std::string& bytes) { return SvgReader(bytes).read(); }

DrawnPng read_png(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size())) throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGB;
  DrawnPng png;
  png.width = static_cast<int>(image.width), png.height = static_cast<int>(image.height);
  png.pixels.resize(static_cast<size_t>(png.width) * static_cast<size_t>(png.height));
  if (!png_image_finish_read(&image, nullptr, png.pixels.data(), 0, nullptr)) throw std::runtime_error(image.message);
  return png;
}

Box plot_of(const DrawnSvg& svg) {
  double x0 = svg.width, y0 = svg.height, x1 = 0, y1 = 0;
  for (const DrawnBox& drawn : svg.boxes) {
    if (drawn.box.height == 12 && (drawn.box.width == 12 || drawn.box.width == 6)) continue;
    x0 = std::min(x0, drawn.box.x), x1 = std::max(x1, drawn.box.x + drawn.box.width);
    y0 = std::min(y0, drawn.box.y), y1 = std::max(y1, drawn.box.y + drawn.box.height);
  }
  return {x0, y0, x1 - x0, y1 - y0};
}

}  // namespace anymask::cli
