// Writes JSON text: just what the C API answers with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anymask {

class Json {
 public:
  Json& open(char bracket);   // '{' or '['
  Json& close(char bracket);  // '}' or ']'
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(const std::string& text) { return value(std::string_view(text)); }
  Json& value(bool truth);
  Json& value(int64_t number);
  Json& value(double number);  // null where it is not finite
  Json& null();
  template <class T>
  Json& field(std::string_view name, const T& what) {
    return key(name).value(what);
  }

  const std::string& text() const { return text_; }

 private:
  void comma();
  std::string text_;
  bool first_ = true;  // nothing yet at this place
};

}  // namespace anymask
