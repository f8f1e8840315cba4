// What the kinds share, on host and device alike: clipped intervals as words, floor division, offsets, three-valued
// sums.
#pragma once

#include <cstdint>

#include "mask/leaf.h"

namespace anymask {

ANYMASK_HOST_DEVICE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
ANYMASK_HOST_DEVICE int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
ANYMASK_HOST_DEVICE int64_t clamp_to(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

// Rounds down: floor_div(-1, 4) is -1. The divisor is positive.
ANYMASK_HOST_DEVICE int64_t floor_div(int64_t x, int64_t divisor) {
  const int64_t quotient = x / divisor;
  return x % divisor < 0 ? quotient - 1 : quotient;
}
// In [0, divisor): floor_mod(-1, 4) is 3.
ANYMASK_HOST_DEVICE int64_t floor_mod(int64_t x, int64_t divisor) {
  const int64_t remainder = x % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

// Bits [begin, end) of a word; what lies outside [0, 64) is cut off.
ANYMASK_HOST_DEVICE uint64_t bit_range(int64_t begin, int64_t end) {
  if (begin < 0) begin = 0;
  if (end > 64) end = 64;
  if (begin >= end) return 0;
  return (~uint64_t{0} >> (64 - (end - begin))) << begin;
}
ANYMASK_HOST_DEVICE uint64_t interval_word(Interval i, int64_t kv_begin) {
  return bit_range(i.begin - kv_begin, i.end - kv_begin);
}

// Clips to the keys. An empty interval becomes begin == end, so both ends stay monotone where they were.
ANYMASK_HOST_DEVICE Interval clip(int64_t begin, int64_t end, int64_t s_kv) {
  begin = clamp_to(begin, 0, s_kv);
  return {begin, clamp_to(end, begin, s_kv)};
}

// What a rectangle keeps when it is cut into pieces: EMPTY or FULL when all pieces are.
struct KeptSum {
  bool some_kept = false, some_dropped = false;
  ANYMASK_HOST_DEVICE void add(Kept piece) {
    some_kept |= piece != Kept::empty;
    some_dropped |= piece != Kept::full;
  }
  ANYMASK_HOST_DEVICE Kept result() const {
    return some_kept ? (some_dropped ? Kept::partial : Kept::full) : Kept::empty;
  }
};

// Which of the n stretches [offsets[i], offsets[i + 1]) holds x: -1 below the first, n at and beyond the last. Empty
// ones hold nothing.
ANYMASK_HOST_DEVICE int64_t find_stretch(const int64_t* offsets, int64_t n, int64_t x) {
  if (x < offsets[0]) return -1;
  int64_t low = 0, high = n + 1;  // offsets[low] <= x < offsets[high], with offsets[n + 1] = infinity
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (offsets[middle] <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Positions [p_begin, p_end) against keys: kv <= p. Exact.
ANYMASK_HOST_DEVICE Kept classify_causal(int64_t p_begin, int64_t p_end, int64_t kv_begin, int64_t kv_end) {
  if (kv_begin >= p_end) return Kept::empty;
  return kv_end - 1 <= p_begin ? Kept::full : Kept::partial;
}

// Eight bytes from any address, the first lowest: every machine this runs on is little-endian.
ANYMASK_HOST_DEVICE uint64_t load_word(const uint8_t* bytes) {
#if defined(__CUDA_ARCH__)
  // A device loads a word from a multiple of 8 alone, and gathers one from elsewhere byte by byte.
  if (reinterpret_cast<uintptr_t>(bytes) % 8 == 0) return *reinterpret_cast<const uint64_t*>(bytes);
#endif
  uint64_t word;
  __builtin_memcpy(&word, bytes, 8);
  return word;
}

// Eight bytes of 0 or 1, the first lowest, to eight bits: a product gathers them in its top byte.
ANYMASK_HOST_DEVICE uint64_t pack_flags(uint64_t flags) { return (flags * 0x0102040810204080ull) >> 56; }

// A rectangle read word by word until both a kept and a dropped pair are seen: for masks that are their bits. Exact.
template <class Kind>
ANYMASK_HOST_DEVICE Kept classify_by_words(const LeafArgs& a, const Rect& r) {
  bool some_kept = false, some_dropped = false;
  const int64_t q_end = a.stride[0][0] == 0 && a.stride[1][0] == 0 ? r.q_begin + 1 : r.q_end;  // one row for all
  for (int64_t q = r.q_begin; q < q_end; ++q) {
    for (int64_t kv = r.kv_begin & ~int64_t{63}; kv < r.kv_end; kv += 64) {
      const uint64_t inside = bit_range(r.kv_begin - kv, r.kv_end - kv);
      const uint64_t word = Kind::word(a, q, kv);
      some_kept |= (word & inside) != 0;
      some_dropped |= (~word & inside) != 0;
      if (some_kept && some_dropped) return Kept::partial;
    }
  }
  return some_kept ? Kept::full : Kept::empty;
}

}  // namespace anymask
