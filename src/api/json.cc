#include "api/json.h"

#include <array>
#include <charconv>
#include <cmath>

namespace anymask {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      constexpr const char* kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

void Json::comma() {
  if (!first_) text_ += ", ";
  first_ = false;
}

Json& Json::open(char bracket) {
  comma();
  text_ += bracket;
  first_ = true;
  return *this;
}

Json& Json::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

Json& Json::key(std::string_view name) {
  comma();
  append_quoted(text_, name);
  text_ += ": ";
  first_ = true;
  return *this;
}

Json& Json::value(std::string_view text) {
  comma();
  append_quoted(text_, text);
  return *this;
}

Json& Json::value(bool truth) {
  comma();
  text_ += truth ? "true" : "false";
  return *this;
}

Json& Json::value(int64_t number) {
  comma();
  text_ += std::to_string(number);
  return *this;
}

Json& Json::null() {
  comma();
  text_ += "null";
  return *this;
}

Json& Json::value(double number) {
  if (!std::isfinite(number)) return null();
  comma();
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text_.append(digits.data(), end);
  return *this;
}

}  // namespace anymask
