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
#include <type_traits>

#include "cuda/ptx/bytes.cuh"
#include "cuda/ptx/half_line.cuh"
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
  if constexpr (size == static_cast<int>(8 * sizeof(Word))) {
    return x << by | x >> ((size - by) % size);
  } else {
    return (x << by | x >> (size - by)) & ((Word{1} << size) - 1);
  }
}

// And to the right: of bits above the lower `size` nothing is known.
template <int size, class Word>
__device__ __forceinline__ Word turn_back(Word x, int by) {
  if constexpr (size < static_cast<int>(8 * sizeof(Word))) x &= (Word{1} << size) - 1;
  return rotate<size>(x, by == 0 ? 0 : size - by);
}

// Which fp16 values reach a code, as a straight line: x / spacing + 1 - code / spacing, clamped to [0, 1], is 1 from
// the code on and 0 up to the value below it, exactly, for two keys by one instruction at the full rate, where a
// comparison runs at half of it. Every term is a number of 11 bits; NaN clamps to 0.
class HalfLine {
 public:
  __device__ __forceinline__ explicit HalfLine(int32_t code) {
    const int32_t size = code < 0 ? -code : code, mantissa = size & 0x3ff;
    // The value below a positive power of two is half as far away.
    const int32_t closer = mantissa == 0 && code > 0 ? 1 : 0;
    const int32_t exponent = 40 - (size >> 10) + closer;  // of 1 / spacing, biased
    straight_ = size >= 0x400 && size < 0x7c00 && exponent <= 30;
    const int32_t steps = (1024 + mantissa) << closer;
    scale_ = both(static_cast<uint32_t>(exponent) << 10);
    offset_ = both(__half_as_ushort(__int2half_rn(1 + (code < 0 ? steps : -steps))));
  }
  // Codes of finite values from 2^-4 on, or up to -2^-5: closer to 0, 1 / spacing may be no fp16 value.
  __device__ __forceinline__ bool straight() const { return straight_; }
  // Two halves, 1 or 0.
  __device__ __forceinline__ uint32_t reached(uint32_t keys) const { return ptx::half_line(keys, scale_, offset_); }

 private:
  static __device__ __forceinline__ uint32_t both(uint32_t half) { return half | half << 16; }
  uint32_t scale_, offset_;
  bool straight_;
};

// 16-bit floats of 5 or 8 bits of exponent.
template <class Half, int exponent_bits>
struct Keys16 {
  using Element = uint16_t;
  using Pair = std::conditional_t<std::is_same_v<Half, __half>, __half2, __nv_bfloat162>;
  static constexpr int chunk_keys = 8;
  static constexpr int32_t infinity = ((1 << exponent_bits) - 1) << (15 - exponent_bits);
  static constexpr bool has_lines = std::is_same_v<Half, __half>;

  // Of a code, twice.
  static __device__ __forceinline__ Pair value(int32_t code) {
    const uint32_t bits = static_cast<uint32_t>(code < 0 ? 0x8000 - code : code);
    return pair(bits | bits << 16);
  }
  static __device__ __forceinline__ Pair pair(uint32_t x) {
    Pair p;
    __builtin_memcpy(static_cast<void*>(&p), &x, 4);
    return p;
  }

  // How many keys of the warp's first chunks reach the code, up to 64 a half of a lane, exact in either format.
  template <int chunks, int size>
  static __device__ __forceinline__ int count(const uint32_t (&x)[size], int32_t code) {
    const Pair bound = value(code);
    Pair sums[4];
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k) {
      const Pair reached = __hge2(pair(x[k]), bound);
      sums[k % 4] = k < 4 ? reached : __hadd2(sums[k % 4], reached);
    }
    const auto both = __hadd2(__hadd2(sums[0], sums[1]), __hadd2(sums[2], sums[3]));
    return __reduce_add_sync(~0u, static_cast<int>(static_cast<float>(both.x) + static_cast<float>(both.y)));
  }

  // Which of them: bit 2 g + j of word c is key 8 g + 2 c + j of the lane.
  static constexpr int groups(int chunks) { return chunks; }
  template <int chunks>
  static __device__ __forceinline__ void words(const uint32_t (&x)[4 * chunks], int32_t code, int lane,
                                               uint32_t (&kept)[4]) {
    const int first = 2 * first_chunk<chunks>(lane);
    if constexpr (has_lines) {
      const HalfLine line(code);
      if (line.straight()) {
#pragma unroll
        for (int c = 0; c < 4; ++c) kept[c] = rotate<2 * chunks>(word_by<chunks>(line, x, c), first);
        return;
      }
    }
    const Pair bound = value(code);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      uint32_t halves = 0;
#pragma unroll
      for (int i = 0; i < chunks; ++i) halves |= __hge2_mask(pair(x[4 * i + c]), bound) & 0x00010001u << i;
      kept[c] = rotate<2 * chunks>(interleave(halves), first);
    }
  }

  // Four chunks a register as 1024 + a + 4 b + 16 c + 64 d, whose last byte holds their bits at the even places.
  template <int chunks>
  static __device__ __forceinline__ uint32_t word_by(const HalfLine& line, const uint32_t (&x)[4 * chunks], int c) {
    uint32_t four[4] = {};
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      constexpr uint32_t weights[4] = {0x3c003c00u, 0x44004400u, 0x4c004c00u, 0x54005400u};  // 1, 4, 16, 64
      const uint32_t before = i % 4 == 0 ? 0x64006400u : four[i / 4];                        // 1024
      four[i / 4] = ptx::half_fma(line.reached(x[4 * i + c]), weights[i % 4], before);
    }
    const uint32_t low = __byte_perm(four[0], four[1], 0x6240), high = __byte_perm(four[2], four[3], 0x6240);
    const uint32_t even = __byte_perm(low, high, 0x5410), odd = __byte_perm(low, high, 0x7632);
    return even | odd << 1;
  }

  // Drops the keys whose bits are 0, in the order of words().
  template <int chunks>
  static __device__ __forceinline__ void filter(uint32_t (&x)[4 * chunks], const uint32_t (&bits)[4], int lane) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const uint32_t kept = turn_back<2 * chunks>(bits[c], 2 * first_chunk<chunks>(lane));
#pragma unroll
      for (int i = 0; i < chunks; ++i) {
        // Bits 2 i and 2 i + 1, moved to the top of byte i / 4, fill a half each.
        const uint32_t low = kept << (7 - 2 * (i % 4)), high = kept << (6 - 2 * (i % 4));
        x[4 * i + c] |= ~ptx::fill_bytes(low, high, (0xcc88u + 0x1111u * (i / 4)));
      }
    }
  }
};

struct Keys32 {
  using Element = uint32_t;
  static constexpr int chunk_keys = 4;
  static constexpr int32_t infinity = 0x7f800000;

  static __device__ __forceinline__ float value(int32_t code) {
    return __uint_as_float(code < 0 ? 0x80000000u - static_cast<uint32_t>(code) : static_cast<uint32_t>(code));
  }

  template <int chunks, int size>
  static __device__ __forceinline__ int count(const uint32_t (&x)[size], int32_t code) {
    const float bound = value(code);
    int sums[4] = {};
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k) sums[k % 4] += __uint_as_float(x[k]) >= bound ? 1 : 0;
    return __reduce_add_sync(~0u, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  static constexpr int groups(int chunks) { return chunks / 2; }
  template <int chunks>
  static __device__ __forceinline__ void words(const uint32_t (&x)[4 * chunks], int32_t code, int lane,
                                               uint32_t (&kept)[4]) {
    const float bound = value(code);
    uint32_t half[2] = {};
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k) half[k / 32] |= __uint_as_float(x[k]) >= bound ? 1u << (k % 32) : 0u;
    const uint64_t keys =
        rotate<4 * chunks>(half[0] | static_cast<uint64_t>(half[1]) << 32, 4 * first_chunk<chunks>(lane));
#pragma unroll
    for (int c = 0; c < 4; ++c)
      kept[c] = quarter(static_cast<uint32_t>(keys), c) | quarter(static_cast<uint32_t>(keys >> 32), c) << 8;
  }

  template <int chunks>
  static __device__ __forceinline__ void filter(uint32_t (&x)[4 * chunks], const uint32_t (&bits)[4], int lane) {
    uint32_t half[2] = {};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      half[0] |= columns(bits[c], c);
      half[1] |= columns(bits[c] >> 8, c);
    }
    const uint64_t keys =
        turn_back<4 * chunks>(half[0] | static_cast<uint64_t>(half[1]) << 32, 4 * first_chunk<chunks>(lane));
#pragma unroll
    for (int k = 0; k < 4 * chunks; ++k)
      if ((static_cast<uint32_t>(keys >> (k / 32 * 32)) >> (k % 32) & 1) == 0) x[k] = no_candidates;
  }
};

using KeysF16 = Keys16<__half, 5>;
using KeysBf16 = Keys16<__nv_bfloat16, 8>;

// Columns below `limit` of a unit's 128, as word c.
__device__ __forceinline__ uint32_t unit_columns_below(int limit, int c) {
  const int mine = limit - 2 * c;
  const int kept = min(max(2 * (mine >> 3) + min(mine & 7, 2), 0), 32);
  return kept == 32 ? ~0u : (1u << kept) - 1;
}

}  // namespace anymask::topk
