// Aligned memory that grows and is kept: what a thread or a call reuses instead of allocating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace anymask {

// 64-byte aligned, uninitialised, never shrinks by itself. Contents are lost when it grows.
class Scratch {
 public:
  // At least `count` Ts. Throws std::bad_alloc.
  template <class T>
  T* get(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      data_.reset();
      bytes_ = 0;
      void* fresh = std::aligned_alloc(64, bytes);
      if (fresh == nullptr) throw std::bad_alloc();
      data_.reset(fresh);
      bytes_ = bytes;
    }
    return static_cast<T*>(data_.get());
  }
  void release() {
    data_.reset();
    bytes_ = 0;
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace anymask
