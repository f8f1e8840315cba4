// Stands in for src/cuda/ptx/half_line.cuh. Products and sums of two 11-bit numbers are exact in double precision
// wherever the kernels ask; every_half is that of mma.cuh.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cuda/emulation/cuda/ptx/mma.cuh"

namespace anymask::ptx {

template <class Each>
inline uint32_t each_half(uint32_t x, uint32_t y, uint32_t z, Each&& each) {
  uint32_t result = 0;
  for (int half = 0; half < 32; half += 16) {
    const double exact = double{every_half[x >> half & 0xffff]} * double{every_half[y >> half & 0xffff]} +
                         double{every_half[z >> half & 0xffff]};
    result |= uint32_t{f32_to_f16(each(static_cast<float>(exact)))} << half;
  }
  return result;
}
inline uint32_t half_fma(uint32_t x, uint32_t y, uint32_t z) {
  return each_half(x, y, z, [](float exact) { return exact; });
}
inline uint32_t half_line(uint32_t x, uint32_t scale, uint32_t offset) {
  return each_half(x, scale, offset,
                   [](float exact) { return std::isnan(exact) ? 0.0f : std::clamp(exact, 0.0f, 1.0f); });
}

}  // namespace anymask::ptx
