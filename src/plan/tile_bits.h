// The kept bits of tiles of one row of tiles, in either orientation, laid out as a plan stores them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "plan/bits.h"
#include "plan/grid.h"

namespace anymask {

// Evaluates tiles [n_begin, n_end) of a row of tiles at once, since a mask may share work between words and rows, and
// hands them out one at a time.
class TileBits {
 public:
  // `words`: memory it works in, grown as needed.
  TileBits(const PlaneMask& plane, const Grid& grid, std::vector<uint64_t>& words)
      : plane_(&plane), grid_(grid), words_(words) {}

  // Tiles evaluated together: about 16 words a row.
  int32_t tiles_at_once() const { return std::max(1, 1024 / grid_.tile_n); }

  void evaluate(int32_t m_block, int32_t n_begin, int32_t n_end) {
    n_begin_ = n_begin;
    row_ = grid_.row_begin(m_block);
    rows_ = grid_.row_end(m_block + 1) - row_;
    const int64_t col = grid_.col_begin(n_begin), cols = grid_.col_end(n_end) - col;
    if (grid_.transposed) {  // rows are keys: words run along them, from a multiple of 64 at or before the first
      key_ = row_ & ~int64_t{63};
      width_ = (row_ + rows_ - key_ + 63) / 64;
      height_ = cols;
    } else {
      key_ = col;
      width_ = (cols + 63) / 64;
      height_ = rows_;
    }
    if (words_.size() < static_cast<size_t>(width_ * height_)) words_.resize(static_cast<size_t>(width_ * height_));
    plane_->words(grid_.transposed ? col : row_, height_, key_, width_, words_.data());
  }

  // Writes tile n_block: tile_m rows of tile_n / 64 words, 0 beyond the plane.
  void tile(int32_t n_block, uint64_t* out) const {
    const int64_t tile_words = grid_.tile_n / 64, from = int64_t{n_block - n_begin_} * tile_words;
    if (grid_.transposed) {
      transposed_tile(from * 64, out);
      return;
    }
    const int64_t inside = std::min(tile_words, width_ - from);  // words that begin inside the plane
    const uint64_t* row = words_.data() + from;
    if (tile_words == 1) {
      for (int64_t i = 0; i < rows_; ++i) out[i] = row[i * width_];
    } else {
      for (int64_t i = 0; i < rows_; ++i, row += width_) {
        for (int64_t w = 0; w < inside; ++w) out[i * tile_words + w] = row[w];
        for (int64_t w = inside; w < tile_words; ++w) out[i * tile_words + w] = 0;
      }
    }
    std::fill(out + rows_ * tile_words, out + grid_.tile_m * tile_words, uint64_t{0});
  }

 private:
  // `from`: first query of the tile, among those evaluated.
  void transposed_tile(int64_t from, uint64_t* out) const {
    const int64_t tile_words = grid_.tile_n / 64;
    std::fill(out, out + grid_.tile_m * tile_words, uint64_t{0});
    uint64_t block[64];
    for (int64_t j = 0; j < tile_words && from + j * 64 < height_; ++j) {
      const int64_t query = from + j * 64, queries = std::min<int64_t>(64, height_ - query);
      for (int64_t w = 0; w < width_; ++w) {
        for (int64_t i = 0; i < queries; ++i) block[i] = words_[static_cast<size_t>((query + i) * width_ + w)];
        std::fill(block + queries, block + 64, uint64_t{0});
        transpose_64x64(block);
        // block[i] is now key `key_ + 64 w + i`; those of this row of tiles are wanted.
        const int64_t first = key_ + w * 64 - row_;
        const int64_t begin = std::max<int64_t>(0, -first), end = std::min<int64_t>(64, rows_ - first);
        for (int64_t i = begin; i < end; ++i) out[(first + i) * tile_words + j] = block[i];
      }
    }
  }

  const PlaneMask* plane_;
  Grid grid_;
  int32_t n_begin_ = 0;
  int64_t row_ = 0, rows_ = 0;                // of the row of tiles, in pairs, clipped to the plane
  int64_t key_ = 0, width_ = 0, height_ = 0;  // words_[height_ queries, width_] from key `key_`
  std::vector<uint64_t>& words_;
};

}  // namespace anymask
