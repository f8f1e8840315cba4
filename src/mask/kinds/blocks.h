// blocks(map, tile_q, tile_kv): map[q / tile_q, kv / tile_kv].
// ints: tile_q, tile_kv, 64-bit words a row of the map. data[0]: uint64 [map rows, words], the map's bits.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Blocks {
  static ANYMASK_HOST_DEVICE const uint64_t* map_row(const LeafArgs& a, int64_t q) {
    return static_cast<const uint64_t*>(a.data[0]) + q / a.ints[0] * a.ints[2];
  }
  static ANYMASK_HOST_DEVICE bool entry(const uint64_t* row, int64_t j) { return row[j / 64] >> (j % 64) & 1; }

  // Exact: every entry of the map the rectangle meets, 64 at a time, until two differ.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t first = r.kv_begin / a.ints[1], end = (r.kv_end - 1) / a.ints[1] + 1;
    bool some_kept = false, some_dropped = false;
    for (int64_t q = r.q_begin; q < r.q_end; q = (q / a.ints[0] + 1) * a.ints[0]) {
      const uint64_t* row = map_row(a, q);
      for (int64_t w = first / 64; w * 64 < end; ++w) {
        const uint64_t inside = bit_range(first - 64 * w, end - 64 * w);
        some_kept |= (row[w] & inside) != 0;
        some_dropped |= (~row[w] & inside) != 0;
        if (some_kept && some_dropped) return Kept::partial;
      }
    }
    return some_kept ? Kept::full : Kept::empty;
  }
  static constexpr int64_t sketch_words = 64;
  // At most so many words of the map are read.
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs& a, const Rect& r) {
    const int64_t rows = (r.q_end - 1) / a.ints[0] - r.q_begin / a.ints[0] + 1;
    const int64_t words = (r.kv_end - 1) / a.ints[1] / 64 - r.kv_begin / a.ints[1] / 64 + 1;
    return words <= sketch_words && rows * words <= sketch_words ? classify(a, r) : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    return entry(map_row(a, q), kv / a.ints[1]);
  }

  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    const uint64_t* row = map_row(a, q);
    const int64_t kv_end = min_of(kv_begin + 64, a.s_kv);
    uint64_t bits = 0;
    int64_t j = kv_begin / a.ints[1];
    for (int64_t kv = j * a.ints[1]; kv < kv_end; kv += a.ints[1], ++j) {
      if (entry(row, j)) bits |= bit_range(kv - kv_begin, kv + a.ints[1] - kv_begin);
    }
    return bits;
  }
  // Rows of one row of the map are equal: evaluated once, then copied.
  static ANYMASK_HOST_DEVICE void words(const LeafArgs& a, int64_t q_begin, int64_t rows, int64_t kv_begin,
                                        int64_t words, uint64_t* bits) {
    int64_t next = 0;  // the first row of the map's next row
    for (int64_t row = 0; row < rows; ++row, bits += words) {
      if (row < next) {
        for (int64_t w = 0; w < words; ++w) bits[w] = bits[w - words];
        continue;
      }
      next = row + a.ints[0] - (q_begin + row) % a.ints[0];
      for (int64_t w = 0; w < words; ++w) {
        const int64_t kv = kv_begin + 64 * w;
        bits[w] = kv < a.s_kv ? word(a, q_begin + row, kv) : 0;
      }
    }
  }
};

}  // namespace anymask
