// Loads and stores of fragments and tiles: cp.async from global to shared memory, ldmatrix from shared memory.
#pragma once

#include <cstdint>

namespace anymask::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes past the first-level cache; both addresses multiples of 16. Not `valid`: 16 zero bytes, nothing is read.
__device__ __forceinline__ void cp_async_16(uint32_t destination, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(valid ? 16 : 0)
               : "memory");
}
// The same where it is always valid.
__device__ __forceinline__ void cp_async_16(uint32_t destination, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(destination), "l"(source) : "memory");
}
// The same, or nothing at all.
__device__ __forceinline__ void cp_async_16_if(bool enabled, uint32_t destination, const void* source, bool valid) {
  asm volatile(
      "{ .reg .pred p; setp.ne.s32 p, %3, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %2; }" ::"r"(destination),
      "l"(source), "r"(valid ? 16 : 0), "r"(static_cast<int>(enabled))
      : "memory");
}
// 4 bytes, for rows that are not aligned to 16.
__device__ __forceinline__ void cp_async_4(uint32_t destination, const void* source, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(source), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the newest `pending` groups of this thread have arrived; then a block barrier for everyone's.
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements. Lanes 8 i .. 8 i + 7 give the row addresses of matrix i, which arrives in
// x[i]: lane l holds row l / 4, elements 2 (l % 4) + {0, 1}. Transposed: column l / 4, rows 2 (l % 4) + {0, 1}.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&x)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

// 16 bytes between registers and shared memory.
__device__ __forceinline__ void st_shared_16(uint32_t destination, const uint32_t (&x)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(destination), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
__device__ __forceinline__ void ld_shared_16(uint32_t (&x)[4], uint32_t source) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(source)
               : "memory");
}
__device__ __forceinline__ void st_shared_4(uint32_t destination, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(destination), "r"(x) : "memory");
}

__device__ __forceinline__ int32_t ld_shared_4(uint32_t source) {
  int32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(source) : "memory");
  return x;
}
__device__ __forceinline__ uint64_t ld_shared_8(uint32_t source) {
  uint64_t x;
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(x) : "r"(source) : "memory");
  return x;
}

// The line of an address of global memory on its way to the second-level cache; no register waits for it.
__device__ __forceinline__ void prefetch_l2(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Global memory between blocks: what was written before the release is seen after an acquire that sees it.
__device__ __forceinline__ void store_release(uint64_t* to, uint64_t x) {
  asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(x) : "memory");
}
__device__ __forceinline__ uint64_t load_acquire(const uint64_t* from) {
  uint64_t x;
  asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(x) : "l"(from) : "memory");
  return x;
}
__device__ __forceinline__ int32_t load_acquire(const int32_t* from) {
  int32_t x;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x;
}
// Between writes of other threads, seen through a barrier of the block, and what tells other blocks of them; and
// between being told and reading.
__device__ __forceinline__ void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

}  // namespace anymask::ptx
