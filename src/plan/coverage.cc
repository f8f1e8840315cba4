// What a picture of a mask shows: kept shares of a grid of cells, and single elements. Nothing of the plane is stored.
#include <algorithm>
#include <bit>

#include "core/error.h"
#include "plan/bits.h"
#include "plan/builder.h"
#include "plan/descend.h"

namespace anymask {
namespace {

// One axis of `length` pairs cut into `cells` cells, each of one pair at least.
struct Axis {
  int64_t length, cells;

  // floor(i * length / cells) without forming the product.
  int64_t begin(int64_t i) const { return i * (length / cells) + i * (length % cells) / cells; }
  int64_t end(int64_t i) const { return std::max(begin(i) + 1, begin(i + 1)); }
};

// A grid descend() understands.
struct Cells {
  Axis q, kv;
  Rect rect(const TileRect& t) const {
    return {q.begin(t.m_begin), q.end(t.m_end - 1), kv.begin(t.n_begin), kv.end(t.n_end - 1)};
  }
};

// Adds the kept pairs of narrow cells [n_begin, n_end) of cell row m to kept[n]: many cells share a word, so the
// stretch is evaluated as a whole, a piece of rows and keys at a time.
void count_narrow(const PlaneMask& plane, const Cells& cells, int32_t m, int32_t n_begin, int32_t n_end,
                  int64_t* kept) {
  constexpr int64_t max_rows = 64, max_words = 32;
  uint64_t bits[max_rows * max_words];
  const Rect r = cells.rect({m, m + 1, n_begin, n_end});
  for (int32_t n = n_begin; n < n_end;) {
    const int64_t key = cells.kv.begin(n) & ~int64_t{63};
    int32_t piece_end = n + 1;  // a cell is narrower than a word: one always fits
    while (piece_end < n_end && cells.kv.end(piece_end) - key <= max_words * 64) ++piece_end;
    const int64_t words = (cells.kv.end(piece_end - 1) - key + 63) / 64;
    for (int64_t q = r.q_begin; q < r.q_end; q += max_rows) {
      const int64_t rows = std::min(max_rows, r.q_end - q);
      plane.words(q, rows, key, words, bits);
      for (int32_t cell = n; cell < piece_end; ++cell) {
        const int64_t begin = cells.kv.begin(cell) - key, end = cells.kv.end(cell) - key, w = begin / 64;
        const uint64_t low = bits_between(begin - w * 64, std::min<int64_t>(end - w * 64, 64));
        const uint64_t high = bits_between(0, end - (w + 1) * 64);
        int64_t sum = 0;
        for (int64_t i = 0; i < rows; ++i) {
          sum += std::popcount(bits[i * words + w] & low);
          if (high != 0) sum += std::popcount(bits[i * words + w + 1] & high);
        }
        kept[cell] += sum;
      }
    }
    n = piece_end;
  }
}

}  // namespace

std::vector<float> coverage(const PlaneMask& plane, int64_t rows, int64_t cols) {
  constexpr int64_t max_cells = int64_t{1} << 28;
  if (rows < 1 || cols < 1 || rows > max_cells / cols) {
    fail_invalid("coverage: a picture of ", rows, " x ", cols, " cells; expected at least one each way and at most ",
                 max_cells, " in all");
  }
  std::vector<float> share(static_cast<size_t>(rows * cols), 0.0f);
  if (plane.s_q == 0 || plane.s_kv == 0) return share;
  const Cells cells{{plane.s_q, rows}, {plane.s_kv, cols}};
  const bool narrow = plane.s_kv / cols < 64;

  constexpr int32_t stripe = 64;
  struct Stretch {
    int32_t begin, end;
  };
  std::vector<Stretch> mixed[stripe];
  std::vector<int64_t> kept(static_cast<size_t>(cols));
  for (int64_t first = 0; first < rows; first += stripe) {
    const auto m = static_cast<int32_t>(first), m_end = static_cast<int32_t>(std::min<int64_t>(first + stripe, rows));
    for (std::vector<Stretch>& row : mixed) row.clear();
    descend(
        plane, cells, {m, m_end, 0, static_cast<int32_t>(cols)},
        [&](const TileRect& t) {
          for (int64_t i = t.m_begin; i < t.m_end; ++i) {
            std::fill(share.begin() + i * cols + t.n_begin, share.begin() + i * cols + t.n_end, 1.0f);
          }
        },
        [&](const TileRect& t) {
          std::vector<Stretch>& row = mixed[t.m_begin - m];
          if (!row.empty() && row.back().end == t.n_begin) {
            row.back().end = t.n_end;
          } else {
            row.push_back({t.n_begin, t.n_end});
          }
        });
    for (int32_t i = m; i < m_end; ++i) {
      for (const Stretch& stretch : mixed[i - m]) {
        std::fill(kept.begin() + stretch.begin, kept.begin() + stretch.end, int64_t{0});
        if (narrow) count_narrow(plane, cells, i, stretch.begin, stretch.end, kept.data());
        for (int32_t n = stretch.begin; n < stretch.end; ++n) {
          const Rect r = cells.rect({i, i + 1, n, n + 1});
          if (!narrow) kept[static_cast<size_t>(n)] = count_kept(plane, r);
          const double pairs = static_cast<double>(r.q_end - r.q_begin) * static_cast<double>(r.kv_end - r.kv_begin);
          share[static_cast<size_t>(i * cols + n)] =
              static_cast<float>(static_cast<double>(kept[static_cast<size_t>(n)]) / pairs);
        }
      }
    }
  }
  return share;
}

std::vector<uint8_t> dense(const PlaneMask& plane, const Rect& r) {
  if (r.q_begin < 0 || r.q_end > plane.s_q || r.kv_begin < 0 || r.kv_end > plane.s_kv || r.q_begin > r.q_end ||
      r.kv_begin > r.kv_end) {
    fail_invalid("dense: rows [", r.q_begin, ", ", r.q_end, ") and keys [", r.kv_begin, ", ", r.kv_end,
                 ") are no rectangle of the plane of ", plane.s_q, " rows and ", plane.s_kv, " keys");
  }
  const int64_t rows = r.q_end - r.q_begin, keys = r.kv_end - r.kv_begin;
  int64_t pairs = 0;
  if (__builtin_mul_overflow(rows, keys, &pairs)) {
    fail_invalid("dense: ", rows, " rows x ", keys, " keys are more elements than 64 bits count: ask for pieces");
  }
  std::vector<uint8_t> out(static_cast<size_t>(pairs));
  if (pairs == 0) return out;
  const int64_t key = r.kv_begin & ~int64_t{63}, words = (r.kv_end - key + 63) / 64;
  std::vector<uint64_t> bits(static_cast<size_t>(words));
  for (int64_t i = 0; i < rows; ++i) {
    plane.words(r.q_begin + i, 1, key, words, bits.data());
    uint8_t* row = out.data() + i * keys;
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t at = r.kv_begin - key + j;
      row[j] = static_cast<uint8_t>((bits[static_cast<size_t>(at / 64)] >> (at % 64)) & 1);
    }
  }
  return out;
}

}  // namespace anymask
