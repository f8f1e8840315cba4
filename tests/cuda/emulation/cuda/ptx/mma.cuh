// Stands in for src/cuda/ptx/mma.cuh, and says how the stand-ins read 16-bit floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/dtype.h"
#include "cuda/emulation/device_keywords.h"

namespace anymask::ptx {

inline const std::vector<float> every_half = [] {
  std::vector<float> values(65536);
  for (uint32_t i = 0; i < 65536; ++i) values[i] = f16_to_f32(static_cast<uint16_t>(i));
  return values;
}();
template <class T>  // __nv_bfloat16 or __half
inline float widen(uint32_t x) {
  return std::is_same_v<T, __nv_bfloat16> ? bf16_to_f32(static_cast<uint16_t>(x)) : every_half[x & 0xffffu];
}
template <class T>
inline uint32_t narrow(float x) {
  return std::is_same_v<T, __nv_bfloat16> ? f32_to_bf16(x) : f32_to_f16(x);
}
template <class T>
inline uint32_t pack(float low, float high) {
  return narrow<T>(low) | narrow<T>(high) << 16;
}
// One lane's part of D[16 x 8] += A[16 x 16] B[16 x 8].
struct Fragments {
  float* d;
  const uint32_t* a;
  uint32_t b[2];
};
template <class T>
inline void multiply_16816(emulation::Lanes lanes) {
  float a[16][16], b[16][8], sum[16][8] = {};
  for (uint32_t l = 0; l < 32; ++l) {
    const Fragments& mine = *static_cast<const Fragments*>(lanes[l]);
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t k = 2 * (l % 4) + 8 * half;
      for (uint32_t i = 0; i < 2; ++i) {
        for (uint32_t h = 0; h < 2; ++h) a[l / 4 + 8 * h][k + i] = widen<T>(mine.a[2 * half + h] >> (16 * i));
        b[k + i][l / 4] = widen<T>(mine.b[half] >> (16 * i));
      }
    }
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 8; ++column) sum[row][column] += a[row][k] * b[k][column];
  for (int l = 0; l < 32; ++l) {
    float* const d = static_cast<const Fragments*>(lanes[l])->d;
    for (int i = 0; i < 4; ++i) d[i] += sum[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
  }
}
template <class T>
inline void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Fragments mine{d, a, {b0, b1}};
  emulation::collective("mma", &mine, &multiply_16816<T>);
}

// rcp.approx.ftz: subnormals go to zero.
inline float reciprocal_approx(float x) { return std::fabs(x) > 0x1p126f ? 0.f : 1 / x; }
// ex2.approx.ftz: subnormals go to zero.
inline float exp2_approx(float x) { return x < -126.f ? 0.f : exp2f(x); }

}  // namespace anymask::ptx
