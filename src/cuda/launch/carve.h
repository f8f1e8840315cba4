// Device memory handed out piece by piece: once without memory, to know the size, and once with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anymask {

class Carve {
 public:
  static constexpr size_t alignment = 256;
  explicit Carve(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(size_t count) {
    char* const at = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (count * sizeof(T) + alignment - 1) / alignment * alignment;
    return reinterpret_cast<T*>(at);
  }
  size_t bytes() const { return bytes_; }

 private:
  char* base_;
  size_t bytes_ = 0;
};

}  // namespace anymask
