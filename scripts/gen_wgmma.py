#!/usr/bin/env python3
"""Writes src/cuda/ptx/wgmma.cuh: one inline function for each N and operand form, the lists of registers typed out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SIZES = (64, 96, 128, 256)  # N of the products the kernels form
TYPES = (("__nv_bfloat16", "bf16"), ("__half", "f16"))
TARGET = Path(__file__).resolve().parent.parent / "src" / "cuda" / "ptx" / "wgmma.cuh"

HEAD = """\
// Warpgroup matrix multiply-accumulate of Hopper, D[64 x N] += A[64 x 16] B[16 x N], fp32 accumulators. Written by
// scripts/gen_wgmma.py.
//
// Lane l of warp w holds of D: d[4 g + 2 h + j] = row 16 w + l / 4 + 8 h, column 8 g + 2 (l % 4) + j. Accumulators
// packed pairwise in order are A of the next product. ss: A and B in shared memory; rs: A in registers. trans: 0 the
// operand is stored with the summed axis contiguous, 1 with the other one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace anymask::ptx {

// Before a batch, and again after any branch or barrier wait inside it: without it ptxas waits after every product.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all but the newest `pending` batches are done.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Keeps reads of accumulators behind the wait before it.
template <int n>
__device__ __forceinline__ void wgmma_settle(float (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Shared-memory matrix descriptor, 128-byte swizzle; strides in bytes. Add bytes / 16 to move it.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  return uint64_t{(address & 0x3ffffu) >> 4} | uint64_t{(leading_bytes >> 4) & 0x3fffu} << 16 |
         uint64_t{(stride_bytes >> 4) & 0x3fffu} << 32 | uint64_t{1} << 62;
}

// Two 16-bit values in another register: adding minus_zeros, -0 twice and no constant to the compiler, changes no
// number. For A of the next rs product, computed while one runs: a plain move ptxas would merge, and then serialise.
template <class T>
__device__ __forceinline__ uint32_t copy_pair(uint32_t x, uint32_t minus_zeros);
template <>
__device__ __forceinline__ uint32_t copy_pair<__nv_bfloat16>(uint32_t x, uint32_t minus_zeros) {
  uint32_t y;
  asm volatile("add.rn.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(minus_zeros));
  return y;
}
template <>
__device__ __forceinline__ uint32_t copy_pair<__half>(uint32_t x, uint32_t minus_zeros) {
  uint32_t y;
  asm volatile("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(minus_zeros));
  return y;
}

template <class T, int n>  // T: __nv_bfloat16 or __half
struct Wgmma;
"""


def functions(c_type: str, ptx_type: str, n: int) -> str:
    """The specialisation for one type and N."""
    r = n // 2
    registers = ", ".join(f"%{i}" for i in range(r))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(r))
    name = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{ptx_type}.{ptx_type}"
    return f"""
template <>
struct Wgmma<{c_type}, {n}> {{
  template <int trans_a, int trans_b>
  __device__ __forceinline__ static void ss(float (&d)[{r}], uint64_t a, uint64_t b, bool accumulate) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{r + 2}, 0;\\n"
        "{name} {{{registers}}}, %{r}, %{r + 1}, p, 1, 1, %{r + 3}, %{r + 4};\\n}}\\n"
        : {outputs}
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(trans_a), "n"(trans_b));
  }}
  template <int trans_b>
  __device__ __forceinline__ static void rs(float (&d)[{r}], const uint32_t (&a)[4], uint64_t b, bool accumulate) {{
    asm volatile(
        "{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{r + 5}, 0;\\n"
        "{name} {{{registers}}}, {{%{r}, %{r + 1}, %{r + 2}, %{r + 3}}}, %{r + 4}, p, 1, 1, %{r + 6};\\n}}\\n"
        : {outputs}
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)), "n"(trans_b));
  }}
}};
"""


def main() -> int:
    """Writes the header in the house's format."""
    body = "".join(functions(c_type, ptx_type, n) for c_type, ptx_type in TYPES for n in SIZES)
    TARGET.write_text(HEAD + body + "\n}  // namespace anymask::ptx\n", encoding="utf-8")
    return subprocess.run(["clang-format-14", "-i", str(TARGET)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
