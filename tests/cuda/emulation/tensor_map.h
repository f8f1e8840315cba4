// What a tensor map holds here, in the place of the driver's 128 opaque bytes, and the 128-byte swizzle.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace anymask::emulation {

// 16-bit elements, axes innermost first; strides in bytes, of axis 0 too. Addresses are sums modulo 2^64.
struct TensorMap {
  uint64_t address;
  uint64_t size[5], stride[5];
  uint32_t box[5];

  static TensorMap from(const CUtensorMap& map) {
    TensorMap tensor;
    std::memcpy(&tensor, &map, sizeof tensor);
    return tensor;
  }
  // `count` elements from `at` on along axis 0; zeros out of bounds.
  void read(const std::array<int64_t, 5>& at, uint32_t count, uint16_t* to) const {
    uint64_t from = address;
    bool inside = true;
    for (size_t i = 0; i < 5; ++i) {
      inside = inside && (i == 0 || (at[i] >= 0 && static_cast<uint64_t>(at[i]) < size[i]));
      from += static_cast<uint64_t>(at[i]) * stride[i];
    }
    std::memset(to, 0, count * sizeof *to);
    for (uint32_t e = 0; inside && e < count; ++e) {
      const int64_t x = at[0] + e;
      if (x >= 0 && static_cast<uint64_t>(x) < size[0])
        std::memcpy(to + e, reinterpret_cast<const void*>(from + e * stride[0]), sizeof *to);
    }
  }
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

// In an address of shared memory, the number of a 16-byte piece among 8 is XORed with the number of its line among 8.
constexpr uint32_t swizzle_128(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

}  // namespace anymask::emulation
