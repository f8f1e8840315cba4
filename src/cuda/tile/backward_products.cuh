// The three shapes of matrix product a backward needs, on mma.sync, one warp each. Tiles in shared memory as
// tile/swizzle.cuh lays them out; accumulators [16-row tile][8-column tile][4] as ptx/mma.cuh describes them.
//
// No tile is ever stored twice: ldmatrix transposes while it loads.
#pragma once

#include <cstdint>

#include "cuda/ptx/ld_st.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/swizzle.cuh"

namespace anymask {

// acc += A B^T, both stored [rows][depth]: S = Q K^T, S^T = K Q^T, dP = dO V^T. `a` and `b` are shared addresses of the
// first of m_tiles * 16 and n_tiles * 8 rows, multiples of 8 rows into their tiles.
template <class T, int depth, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_rows(float (&acc)[m_tiles][n_tiles][4], uint32_t a, uint32_t b, int lane) {
  static_assert(n_tiles % 2 == 0);
  const uint32_t a_lane = a + Swizzle<depth>::offset(lane & 15, lane >> 4);
  const uint32_t b_lane = b + Swizzle<depth>::offset((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
#pragma unroll
  for (int step = 0; step < depth / 16; ++step) {
    uint32_t a_fragment[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
      ptx::ldmatrix_x4(a_fragment[m], Swizzle<depth>::chunk(a_lane, 2 * step) + m * 16 * depth * 2);
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      uint32_t b_fragment[4];
      ptx::ldmatrix_x4(b_fragment, Swizzle<depth>::chunk(b_lane, 2 * step) + n * 8 * depth * 2);
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        ptx::mma_16816<T>(acc[m][n], a_fragment[m], b_fragment[0], b_fragment[1]);
        ptx::mma_16816<T>(acc[m][n + 1], a_fragment[m], b_fragment[2], b_fragment[3]);
      }
    }
  }
}

// acc += A B, A in registers, B stored [depth][columns]: dV += P^T dO, dK += dS^T Q, dQ += dS K. `b` is the shared
// address of the first of k_tiles * 16 rows.
template <class T, int columns, int m_tiles, int k_tiles>
__device__ __forceinline__ void accumulate_rows(float (&acc)[m_tiles][columns / 8][4],
                                                const uint32_t (&a)[m_tiles][k_tiles][4], uint32_t b, int lane) {
  const uint32_t b_lane = b + Swizzle<columns>::offset(lane & 15, lane >> 4);
#pragma unroll
  for (int k = 0; k < k_tiles; ++k) {
#pragma unroll
    for (int n = 0; n < columns / 8; n += 2) {
      uint32_t b_fragment[4];
      ptx::ldmatrix_x4_trans(b_fragment, Swizzle<columns>::chunk(b_lane, n) + k * 16 * columns * 2);
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        ptx::mma_16816<T>(acc[m][n], a[m][k], b_fragment[0], b_fragment[1]);
        ptx::mma_16816<T>(acc[m][n + 1], a[m][k], b_fragment[2], b_fragment[3]);
      }
    }
  }
}

// acc += A^T B, A stored [depth][a_columns], B stored [depth][b_columns]: dQ += dS K from dS^T and K. The warp takes
// columns a_column and on of A (a multiple of 16) as its rows, b_column and on of B (a multiple of 16).
template <class T, int depth, int a_columns, int b_columns, int m_tiles, int n_tiles>
__device__ __forceinline__ void multiply_columns(float (&acc)[m_tiles][n_tiles][4], uint32_t a, int a_column,
                                                 uint32_t b, int b_column, int lane) {
  static_assert(n_tiles % 2 == 0);
  const int a_row = (lane & 7) + ((lane >> 4) << 3), a_half = (lane >> 3) & 1;
  uint32_t a_lane[m_tiles], b_lane[n_tiles / 2];
#pragma unroll
  for (int m = 0; m < m_tiles; ++m) a_lane[m] = a + Swizzle<a_columns>::offset(a_row, (a_column >> 3) + 2 * m + a_half);
#pragma unroll
  for (int n = 0; n < n_tiles / 2; ++n)
    b_lane[n] = b + Swizzle<b_columns>::offset(lane & 15, (b_column >> 3) + 2 * n + (lane >> 4));
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    uint32_t a_fragment[m_tiles][4];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) ptx::ldmatrix_x4_trans(a_fragment[m], a_lane[m] + k * a_columns * 2);
#pragma unroll
    for (int n = 0; n < n_tiles / 2; ++n) {
      uint32_t b_fragment[4];
      ptx::ldmatrix_x4_trans(b_fragment, b_lane[n] + k * b_columns * 2);
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) {
        ptx::mma_16816<T>(acc[m][2 * n], a_fragment[m], b_fragment[0], b_fragment[1]);
        ptx::mma_16816<T>(acc[m][2 * n + 1], a_fragment[m], b_fragment[2], b_fragment[3]);
      }
    }
  }
}

}  // namespace anymask
