// Text and bytes handed to C callers, who give them back to anymask_free.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace anymask {

inline char* give_text(std::string_view text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

}  // namespace anymask
