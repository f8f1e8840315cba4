// Stands in for src/cuda/ptx/wgmma.cuh: a warp's 16 rows of D[64 x N] += A[64 x 16] B[16 x N], done by the last lane to
// come. Operands are read when the product is done, from shared memory in the 128-byte swizzle or from registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda/emulation/tensor_map.h"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"

namespace anymask::ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() { emulation::commit(emulation::Queue::products); }
template <int pending>
inline void wgmma_wait() {
  emulation::wait(emulation::Queue::products, pending);
}
template <int n>
inline void wgmma_settle(float (&)[n]) {}

inline uint64_t descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  return uint64_t{(address & 0x3ffffu) >> 4} | uint64_t{(leading_bytes >> 4) & 0x3fffu} << 16 |
         uint64_t{(stride_bytes >> 4) & 0x3fffu} << 32 | uint64_t{1} << 62;
}

template <class T>
inline uint32_t copy_pair(uint32_t x, uint32_t) {
  return x;
}

// A matrix as its descriptor says: groups of 8 lines of 128 bytes, `stride` apart; beyond 64 elements of a line the
// next block is `leading` bytes away. Read in pieces of 8 elements, which the swizzle leaves together.
template <class T>
struct Operand {
  uint32_t address, leading, stride;
  explicit Operand(uint64_t bits)
      : address(static_cast<uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4) {}
  // Elements i .. i + 7 of a line, to x[0], x[step], ...
  void read(uint32_t line, uint32_t i, float* x, int step) const {
    const uint32_t offset = address + line / 8 * stride + line % 8 * 128 + i / 64 * leading + i % 64 * 2;
    uint16_t values[8];
    std::memcpy(values, emulation::shared_pointer(emulation::swizzle_128(offset), 16), 16);
    for (int e = 0; e < 8; ++e) x[e * step] = widen<T>(values[e]);
  }
};

// One lane's part of a product.
struct Product {
  float* d;
  const uint32_t* a_registers;  // null: A is in shared memory
  uint64_t a, b;
  bool accumulate;
};

template <class T, int n, bool trans_b>
inline void multiply(emulation::Lanes lanes) {
  const Product& first = *static_cast<const Product*>(lanes[0]);
  const uint32_t warp = threadIdx.x % 128 / 32;
  float a[16][16], b[16][n], sum[16][n] = {};
  for (uint32_t l = 0; l < 32; ++l) {
    const Product& mine = *static_cast<const Product*>(lanes[l]);
    if (mine.a != first.a || mine.b != first.b || mine.accumulate != first.accumulate)
      throw emulation::Fault("wgmma: lanes of a warp give different descriptors");
    if (mine.a_registers == nullptr) continue;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = l / 4 + 8 * (i % 2), k = 2 * (l % 4) + 8 * (i / 2);
      a[row][k] = widen<T>(mine.a_registers[i]);
      a[row][k + 1] = widen<T>(mine.a_registers[i] >> 16);
    }
  }
  const Operand<T> from_a(first.a), from_b(first.b);
  for (uint32_t half = 0; half < 2; ++half) {
    if (first.a_registers == nullptr) {
      for (uint32_t row = 0; row < 16; ++row) from_a.read(16 * warp + row, 8 * half, &a[row][8 * half], 1);
    }
    if constexpr (!trans_b) {
      for (uint32_t column = 0; column < n; ++column) from_b.read(column, 8 * half, &b[8 * half][column], n);
    }
  }
  if constexpr (trans_b) {
    for (uint32_t k = 0; k < 16; ++k)
      for (uint32_t column = 0; column < n; column += 8) from_b.read(k, column, &b[k][column], 1);
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < n; ++column) sum[row][column] += a[row][k] * b[k][column];
  for (int l = 0; l < 32; ++l) {
    float* const d = static_cast<const Product*>(lanes[l])->d;
    for (int i = 0; i < n / 2; ++i) {
      const float x = sum[l / 4 + i / 2 % 2 * 8][i / 4 * 8 + l % 4 * 2 + i % 2];
      d[i] = first.accumulate ? d[i] + x : x;
    }
  }
}

template <class T, int n>
struct Wgmma {
  template <int trans_a, int trans_b>
  static void ss(float (&d)[n / 2], uint64_t a, uint64_t b, bool accumulate) {
    static_assert(trans_a == 0);
    start<trans_b>({d, nullptr, a, b, accumulate});
  }
  template <int trans_b>
  static void rs(float (&d)[n / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
    start<trans_b>({d, a, 0, b, accumulate});
  }

 private:
  template <int trans_b>
  static void start(Product product) {
    emulation::enqueue(emulation::Queue::products,
                       [=]() mutable { emulation::collective("wgmma", &product, &multiply<T, n, trans_b != 0>); });
  }
};

}  // namespace anymask::ptx
