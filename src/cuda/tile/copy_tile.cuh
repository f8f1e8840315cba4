// Tiles of 16-bit rows between global and shared memory: asynchronous 16-byte copies, or, where strides or addresses
// are not multiples of 16 bytes, element by element.
//
// Rows beyond `rows` and columns beyond `cols` become zeros and are never read: a zero probability times what lies in
// the padding must stay zero, and the padding may hold NaN.
#pragma once

#include <cstdint>

#include "cuda/fold.h"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/tile/opaque.cuh"
#include "cuda/tile/swizzle.cuh"

namespace anymask {

// How `threads` threads share out a tile of tile_rows x tile_cols: neighbours along a row, 8 chunks (128 bytes) at
// most.
template <int tile_rows, int tile_cols, int threads>
struct CopyShape {
  static constexpr int lanes = tile_cols % 64 == 0 ? 8 : tile_cols % 32 == 0 ? 4 : 2;  // threads along a row
  static constexpr int row_step = threads / lanes;
  static constexpr int passes = tile_rows / row_step;
  static constexpr int col_groups = tile_cols / 8 / lanes;
  static_assert(tile_rows % row_step == 0);
};

// How far apart a tile's rows lie in memory, in elements: tokens of one head, or of as many as are folded into rows.
struct RowStrides {
  int64_t token, head;
  Fold fold;

  __device__ __forceinline__ RowStrides(int64_t token_, int64_t head_ = 0, Fold fold_ = {})
      : token(token_), head(head_), fold(fold_) {}
  __device__ __forceinline__ int64_t of(int row) const { return fold.token(row) * token + fold.head(row) * head; }
  // From a row to the one `rows` further, a multiple of the folded heads: sm80_forward_max_fold sees to it.
  __device__ __forceinline__ int64_t step(int rows) const { return fold.token(rows) * token; }
};

// `tile` is the tile's shared address, `source` its element (0, 0); whole block, or whole warp.
template <int tile_rows, int tile_cols, int threads>
__device__ __forceinline__ void load_tile(uint32_t tile, const uint16_t* source, RowStrides stride, int rows, int cols,
                                          bool aligned, int thread) {
  using Shape = CopyShape<tile_rows, tile_cols, threads>;
  thread = opaque(thread), stride.token = opaque(stride.token);
  const int row = thread / Shape::lanes, chunk = thread % Shape::lanes;
  if (aligned) {
    const uint16_t* from = source + stride.of(row) + chunk * 8;
    const uint32_t to = tile + Swizzle<tile_cols>::offset(row, chunk);
    if (rows >= tile_rows && cols == tile_cols) {
#pragma unroll
      for (int pass = 0; pass < Shape::passes; ++pass) {
#pragma unroll
        for (int group = 0; group < Shape::col_groups; ++group) {
          ptx::cp_async_16(
              tile + Swizzle<tile_cols>::offset(row + pass * Shape::row_step, chunk + group * Shape::lanes),
              from + group * Shape::lanes * 8);
        }
        from += stride.step(Shape::row_step);
      }
    } else {
#pragma unroll 1
      for (int pass = 0; pass < Shape::passes; ++pass) {
        const int r = row + pass * Shape::row_step;
#pragma unroll
        for (int group = 0; group < Shape::col_groups; ++group) {
          const int c = chunk + group * Shape::lanes;
          const bool valid = r < rows && c * 8 < cols;
          ptx::cp_async_16(tile + Swizzle<tile_cols>::offset(r, c), valid ? from + group * Shape::lanes * 8 : source,
                           valid);
        }
        from += stride.step(Shape::row_step);
      }
    }
    return;
  }
#pragma unroll 1
  for (int i = thread; i < tile_rows * Swizzle<tile_cols>::chunks; i += threads) {
    const int r = i / Swizzle<tile_cols>::chunks, c = i % Swizzle<tile_cols>::chunks;
    const uint16_t* from = source + stride.of(r) + c * 8;
    uint32_t words[4] = {0, 0, 0, 0};
    if (r < rows && c * 8 < cols) {
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] = from[2 * j] | uint32_t{from[2 * j + 1]} << 16;
    }
    ptx::st_shared_16(tile + Swizzle<tile_cols>::offset(r, c), words);
  }
}

// load_tile for aligned tensors, one copy of each thread at a time: to be sprinkled over a product, whose instructions
// leave most issue slots free. Copies are asked for in order, 0 to `copies` - 1; not `enabled`: none happens.
template <int tile_rows, int tile_cols, int threads>
struct TileCopy {
  using Shape = CopyShape<tile_rows, tile_cols, threads>;
  static constexpr int copies = Shape::passes * Shape::col_groups;

  const uint16_t* from;
  int64_t step;
  uint32_t to;
  int left[Shape::col_groups];  // rows from this thread's first on, 0 in columns beyond `cols`
  bool enabled;

  __device__ __forceinline__ void start(uint32_t tile, const uint16_t* source, int64_t stride, int rows, int cols,
                                        int thread, bool enabled_) {
    const int row = thread / Shape::lanes, chunk = thread % Shape::lanes;
    from = source + row * stride + chunk * 8;
    step = stride * Shape::row_step;
    to = tile + Swizzle<tile_cols>::offset(row, chunk);
#pragma unroll
    for (int group = 0; group < Shape::col_groups; ++group) {
      left[group] = (chunk + group * Shape::lanes) * 8 < cols ? rows - row : 0;
    }
    enabled = enabled_;
  }
  __device__ __forceinline__ void copy(int i) {
    const int pass = i / Shape::col_groups, group = i % Shape::col_groups;
    // Rows are 8 or more apart: the swizzle of all passes is the first one's.
    static_assert(Shape::row_step % 8 == 0);
    ptx::cp_async_16_if(enabled,
                        to + pass * Shape::row_step * Swizzle<tile_cols>::row_bytes + group * Shape::lanes * 16,
                        from + group * Shape::lanes * 8, left[group] > pass * Shape::row_step);
    if (group == Shape::col_groups - 1) from += step;
  }
};

// The other way, by one warp, of rows it wrote itself.
template <int tile_rows, int tile_cols>
__device__ __forceinline__ void store_tile(uint16_t* destination, RowStrides stride, int rows, int cols, bool aligned,
                                           uint32_t tile, int lane) {
  using Shape = CopyShape<tile_rows, tile_cols, 32>;
#pragma unroll 1
  for (int pass = 0; pass < Shape::passes; ++pass) {
    const int r = lane / Shape::lanes + pass * Shape::row_step;
#pragma unroll
    for (int group = 0; group < Shape::col_groups; ++group) {
      const int c = lane % Shape::lanes + group * Shape::lanes;
      if (r >= rows || c * 8 >= cols) continue;
      uint32_t words[4];
      ptx::ld_shared_16(words, tile + Swizzle<tile_cols>::offset(r, c));
      uint16_t* to = destination + stride.of(r) + c * 8;
      if (aligned) {
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          to[2 * j] = static_cast<uint16_t>(words[j]);
          to[2 * j + 1] = static_cast<uint16_t>(words[j] >> 16);
        }
      }
    }
  }
}

}  // namespace anymask
