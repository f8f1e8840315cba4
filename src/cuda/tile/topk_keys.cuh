// Keys of a row in a warp's registers: how they get there, how many reach a value, and which, in the plan's order.
//
// A segment is what a warp holds: 16 KB / 2 at most, `chunks` pieces of 16 bytes a lane. Lane l holds the segment's
// l-th stretch of them, so lanes ascend with keys and a lane's stretch is a fragment unit's 128 columns or a part of
// them. It reads its chunks beginning at a different one than its neighbours: the 8 lanes that shared memory serves at
// once then meet 8 different bank groups. What it finds is turned back by a rotation of bits.
//
// Values are compared as floats, packed by two where they have 16 bits: NaN reaches nothing, -0 is 0, and keys that are
// no candidates are NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/tile/mask_bits.cuh"

namespace anymask::topk {

inline constexpr uint32_t no_candidates = 0xffffffffu;  // NaN in every format, or two of them

// The order of chunks: step i of a lane reads chunk (i + first_chunk) % chunks.
template <int chunks>
__device__ __forceinline__ int first_chunk(int lane) {
  return (chunks >= 8 ? lane : lane / (8 / chunks)) % chunks;
}

// Bits 0..15 to the even places, 16..31 to the odd ones.
__device__ __forceinline__ uint32_t interleave(uint32_t x) {
  x = (x & 0xff0000ffu) | (x & 0x00ff0000u) >> 8 | (x & 0x0000ff00u) << 8;
  x = (x & 0xf00ff00fu) | (x & 0x0f000f00u) >> 4 | (x & 0x00f000f0u) << 4;
  x = (x & 0xc3c3c3c3u) | (x & 0x30303030u) >> 2 | (x & 0x0c0c0c0cu) << 2;
  return (x & 0x99999999u) | (x & 0x44444444u) >> 1 | (x & 0x22222222u) << 1;
}

// The lower `size` bits, `by` < size places to the left, around.
template <int size, class Word>
__device__ __forceinline__ Word rotate(Word x, int by) {
  if (by == 0) return x;
  x = x << by | x >> (size - by);
  if constexpr (size < static_cast<int>(8 * sizeof(Word))) x &= (Word{1} << size) - 1;
  return x;
}

// 16-bit floats: Pair is __half2 or __nv_bfloat162, of 5 or 8 bits of exponent.
template <class Pair, int exponent_bits>
struct Keys16 {
  using Element = uint16_t;
  static constexpr int chunk_keys = 8;
  static constexpr int32_t infinity = ((1 << exponent_bits) - 1) << (15 - exponent_bits);

  // Of a code, twice.
  static __device__ __forceinline__ uint32_t value(int32_t code) {
    const uint32_t bits = static_cast<uint32_t>(code < 0 ? 0x8000 - code : code);
    return bits | bits << 16;
  }
  static __device__ __forceinline__ Pair pair(uint32_t x) {
    Pair p;
    __builtin_memcpy(static_cast<void*>(&p), &x, 4);
    return p;
  }

  // How many keys of the lane's first chunks are at least `value`: up to 64 a half, exact in either format.
  template <int chunks, int size>
  static __device__ __forceinline__ int count(const uint32_t (&x)[size], uint32_t value) {
    const Pair bound = pair(value);
    Pair sums[4];
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k) {
      const Pair reached = __hge2(pair(x[k]), bound);
      sums[k % 4] = k < 4 ? reached : __hadd2(sums[k % 4], reached);
    }
    const auto both = __hadd2(__hadd2(sums[0], sums[1]), __hadd2(sums[2], sums[3]));
    return static_cast<int>(static_cast<float>(both.x) + static_cast<float>(both.y));
  }

  // Which of them: bit 2 g + j of word c is key 8 g + 2 c + j of the lane.
  static constexpr int groups(int chunks) { return chunks; }
  template <int chunks>
  static __device__ __forceinline__ void words(const uint32_t (&x)[4 * chunks], uint32_t value, int lane,
                                               uint32_t (&kept)[4]) {
    const Pair bound = pair(value);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      uint32_t halves = 0;
#pragma unroll
      for (int i = 0; i < chunks; ++i) halves |= __hge2_mask(pair(x[4 * i + c]), bound) & 0x00010001u << i;
      kept[c] = rotate<2 * chunks>(interleave(halves), 2 * first_chunk<chunks>(lane));
    }
  }

  // Drops the keys of a chunk whose bits are 0.
  static __device__ __forceinline__ void filter(uint32_t (&x)[4], uint32_t bits) {
#pragma unroll
    for (int c = 0; c < 4; ++c)
      x[c] |= (bits >> (2 * c) & 1 ? 0u : 0x0000ffffu) | (bits >> (2 * c) & 2 ? 0u : 0xffff0000u);
  }
};

struct Keys32 {
  using Element = uint32_t;
  static constexpr int chunk_keys = 4;
  static constexpr int32_t infinity = 0x7f800000;

  static __device__ __forceinline__ uint32_t value(int32_t code) {
    return code < 0 ? 0x80000000u - static_cast<uint32_t>(code) : static_cast<uint32_t>(code);
  }

  template <int chunks, int size>
  static __device__ __forceinline__ int count(const uint32_t (&x)[size], uint32_t value) {
    const float bound = __uint_as_float(value);
    int sums[4] = {};
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k) sums[k % 4] += __uint_as_float(x[k]) >= bound ? 1 : 0;
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  static constexpr int groups(int chunks) { return chunks / 2; }
  template <int chunks>
  static __device__ __forceinline__ void words(const uint32_t (&x)[4 * chunks], uint32_t value, int lane,
                                               uint32_t (&kept)[4]) {
    const float bound = __uint_as_float(value);
    uint32_t half[2] = {};
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k) half[k / 32] |= __uint_as_float(x[k]) >= bound ? 1u << (k % 32) : 0u;
    const uint64_t keys =
        rotate<4 * chunks>(half[0] | static_cast<uint64_t>(half[1]) << 32, 4 * first_chunk<chunks>(lane));
#pragma unroll
    for (int c = 0; c < 4; ++c)
      kept[c] = quarter(static_cast<uint32_t>(keys), c) | quarter(static_cast<uint32_t>(keys >> 32), c) << 8;
  }

  static __device__ __forceinline__ void filter(uint32_t (&x)[4], uint32_t bits) {
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if ((bits >> c & 1) == 0) x[c] = no_candidates;
  }
};

using KeysF16 = Keys16<__half2, 5>;
using KeysBf16 = Keys16<__nv_bfloat162, 8>;

// Columns below `limit` of a unit's 128, as word c.
__device__ __forceinline__ uint32_t unit_columns_below(int limit, int c) {
  const int mine = limit - 2 * c;
  const int kept = min(max(2 * (mine >> 3) + min(mine & 7, 2), 0), 32);
  return kept == 32 ? ~0u : (1u << kept) - 1;
}

}  // namespace anymask::topk
