// Stands in for src/cuda/ptx/ld_st.cuh: addresses of shared memory count from its first byte.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda/emulation/device_keywords.h"

namespace anymask::ptx {

inline uint32_t shared_address(const void* pointer) { return emulation::shared_offset(pointer); }

inline void start_copy(uint32_t destination, const void* source, uint32_t bytes, bool valid) {
  if (destination % bytes != 0 || (valid && reinterpret_cast<uintptr_t>(source) % bytes != 0))
    throw emulation::Fault("cp.async: an address is not aligned to its size");
  emulation::enqueue(emulation::Queue::copies, [=] {
    uint8_t* const to = emulation::shared_pointer(destination, bytes);
    valid ? std::memcpy(to, source, bytes) : std::memset(to, 0, bytes);
  });
}
inline void cp_async_16(uint32_t destination, const void* source, bool valid = true) {
  start_copy(destination, source, 16, valid);
}
inline void cp_async_16_if(bool enabled, uint32_t destination, const void* source, bool valid) {
  if (enabled) start_copy(destination, source, 16, valid);
}
inline void cp_async_4(uint32_t destination, const void* source, bool valid) {
  start_copy(destination, source, 4, valid);
}
inline void cp_async_commit() { emulation::commit(emulation::Queue::copies); }
template <int pending>
inline void cp_async_wait() {
  emulation::wait(emulation::Queue::copies, pending);
}

// One lane's part of an ldmatrix: the address of a row, and what it gets of each matrix.
struct MatrixRow {
  uint32_t address;
  uint32_t x[4];
};
template <int matrices, bool transposed>
inline void load_matrices(emulation::Lanes lanes) {
  for (uint32_t m = 0; m < matrices; ++m) {
    uint16_t matrix[8][8];
    for (uint32_t row = 0; row < 8; ++row) {
      const uint32_t address = static_cast<const MatrixRow*>(lanes[8 * m + row])->address;
      if (address % 16 != 0) throw emulation::Fault("ldmatrix: a row is not aligned to 16 bytes");
      std::memcpy(matrix[row], emulation::shared_pointer(address, 16), 16);
    }
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t i = l / 4, j = 2 * (l % 4);
      static_cast<MatrixRow*>(lanes[l])->x[m] = transposed ? matrix[j][i] | uint32_t{matrix[j + 1][i]} << 16
                                                           : matrix[i][j] | uint32_t{matrix[i][j + 1]} << 16;
    }
  }
}
template <int matrices, bool transposed>
inline void ldmatrix(uint32_t (&x)[matrices], uint32_t address) {
  MatrixRow mine{address, {}};
  emulation::collective("ldmatrix", &mine, &load_matrices<matrices, transposed>);
  for (int m = 0; m < matrices; ++m) x[m] = mine.x[m];
}
inline void ldmatrix_x4(uint32_t (&x)[4], uint32_t address) { ldmatrix<4, false>(x, address); }
inline void ldmatrix_x4_trans(uint32_t (&x)[4], uint32_t address) { ldmatrix<4, true>(x, address); }

template <class X>
inline void ld_shared(X& x, uint32_t source) {
  if (source % sizeof x != 0) throw emulation::Fault("ld.shared: an address is not aligned to its size");
  std::memcpy(&x, emulation::shared_pointer(source, sizeof x), sizeof x);
}
template <class X>
inline void st_shared(uint32_t destination, const X& x) {
  if (destination % sizeof x != 0) throw emulation::Fault("st.shared: an address is not aligned to its size");
  std::memcpy(emulation::shared_pointer(destination, sizeof x), &x, sizeof x);
}
inline void st_shared_16(uint32_t destination, const uint32_t (&x)[4]) { st_shared(destination, x); }
inline void ld_shared_16(uint32_t (&x)[4], uint32_t source) { ld_shared(x, source); }
inline void st_shared_4(uint32_t destination, uint32_t x) { st_shared(destination, x); }
inline int32_t ld_shared_4(uint32_t source) {
  int32_t x;
  ld_shared(x, source);
  return x;
}
inline uint64_t ld_shared_8(uint32_t source) {
  uint64_t x;
  ld_shared(x, source);
  return x;
}

// What would be read must be there.
inline void prefetch_l2(const void* at) { static_cast<void>(*static_cast<const volatile uint8_t*>(at)); }

// Blocks run one after the other, in their order.
inline void store_release(uint64_t* to, uint64_t x) { *to = x; }
template <class Int>
Int load_acquire(const Int* from) {
  return *from;
}
inline void fence_device() {}

}  // namespace anymask::ptx
