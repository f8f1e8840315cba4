// Aligned memory that grows and is kept: what a thread or a call reuses instead of allocating.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace anymask {

// 64-byte aligned, uninitialised, never shrinks by itself. Contents are lost when it grows. From 1 MB on it asks for
// pages of 2 MB: packed panels are swept by every block of rows, and 4 KB pages cost such sweeps a hundredth.
class Scratch {
 public:
  // At least `count` Ts. Throws std::bad_alloc.
  template <class T>
  T* get(int64_t count) {
    const size_t wanted = static_cast<size_t>(count) * sizeof(T);
    if (wanted > bytes_) {
      const size_t unit = wanted < huge_page / 2 ? 64 : huge_page;
      const size_t bytes = (wanted + unit - 1) / unit * unit;
      data_.reset();
      bytes_ = 0;
      void* fresh = std::aligned_alloc(unit, bytes);
      if (fresh == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
      if (unit == huge_page) madvise(fresh, bytes, MADV_HUGEPAGE);
#endif
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
  static constexpr size_t huge_page = size_t{2} << 20;

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace anymask
