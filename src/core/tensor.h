// A view over memory somebody else owns: pointer, type, shape, strides in elements.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>

#include "core/dtype.h"

namespace anymask {

enum class DeviceKind : uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int32_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr int max_rank = 5;

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, max_rank> shape{};
  std::array<int64_t, max_rank> stride{};  // elements; 0 where expanded
  Device device;

  bool defined() const { return rank > 0; }  // a tensor of no elements may have a null pointer and is still defined
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// Prints the shape alone, as messages show it: [2, 512, 8, 64]
inline std::ostream& operator<<(std::ostream& out, const TensorView& t) {
  out << '[';
  for (int i = 0; i < t.rank; ++i) out << (i ? ", " : "") << t.shape[i];
  return out << ']';
}

}  // namespace anymask
