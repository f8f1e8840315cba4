#include "plan/band_rows.h"

#include <algorithm>

#include "plan/bits.h"

namespace anymask {
namespace {

// The columns of a band are found by search: queries that keep key k run from the first row that ends beyond k to the
// first that begins beyond k. Both are monotone in k, since rows' ends are in q.
bool ends_beyond(const Interval& row, int64_t key) { return row.end > key; }
bool begins_beyond(const Interval& row, int64_t key) { return row.begin > key; }
using Beyond = bool (*)(const Interval& row, int64_t key);

// The first row of the plane that is beyond `key`, or s_q. Sought outward from the diagonal, near which most masks are
// cut.
template <Beyond beyond>
int64_t first_row(const PlaneMask& plane, int64_t key) {
  if (plane.s_q == 0) return 0;
  const int64_t guess = std::clamp<int64_t>(key - (plane.s_kv - plane.s_q), 0, plane.s_q - 1);
  int64_t low = 0, high = plane.s_q;  // rows before low are not beyond, rows from high on are
  if (beyond(plane.interval(guess), key)) {
    high = guess;
    for (int64_t step = 1; low < high && step <= high; step *= 2) {
      if (!beyond(plane.interval(high - step), key)) {
        low = high - step + 1;
        break;
      }
      high -= step;
    }
  } else {
    low = guess + 1;
    for (int64_t step = 1; step <= high - low; step *= 2) {
      if (beyond(plane.interval(low + step - 1), key)) {
        high = low + step - 1;
        break;
      }
      low += step;
    }
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (beyond(plane.interval(middle), key)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The same for keys [key, key + count): one search, then rows are read on, and searched again where a whole batch of
// them decides nothing. Hands each key's row to set(i, row).
template <Beyond beyond, class Set>
void first_rows(const PlaneMask& plane, int64_t key, int64_t count, Set&& set) {
  constexpr int64_t batch = 64;
  Interval rows[batch];
  int64_t q = first_row<beyond>(plane, key);
  for (int64_t i = 0; i < count;) {
    const int64_t before = i, read = std::min(batch, plane.s_q - q);
    if (read == 0) {
      for (; i < count; ++i) set(i, q);
      return;
    }
    plane.intervals(q, read, rows);
    for (int64_t r = 0; r < read; ++r) {
      for (; i < count && beyond(rows[r], key + i); ++i) set(i, q + r);
    }
    q = i == before ? first_row<beyond>(plane, key + i) : q + read;
  }
}

// Intervals of columns of rows [first, first + count) of the grid.
void fill_lines(const PlaneMask& plane, const Grid& grid, int64_t first, int64_t count, Interval* lines) {
  if (!grid.transposed) {
    plane.intervals(first, count, lines);
    return;
  }
  first_rows<ends_beyond>(plane, first, count, [lines](int64_t i, int64_t q) { lines[i].begin = q; });
  first_rows<begins_beyond>(plane, first, count, [lines](int64_t i, int64_t q) { lines[i].end = q; });
}

Interval line_of(const PlaneMask& plane, const Grid& grid, int64_t row) {
  if (!grid.transposed) return plane.interval(row);
  return {first_row<ends_beyond>(plane, row), first_row<begins_beyond>(plane, row)};
}

// Sets columns [begin, end) in a row of bits whose column 0 is `origin`; what lies outside the row is ignored.
void set_bits(uint64_t* row, int64_t words, int64_t origin, int64_t begin, int64_t end) {
  begin = std::max<int64_t>(begin - origin, 0);
  end = std::min(end - origin, words * 64);
  if (words == 1) {
    *row = bits_between(begin, end);
    return;
  }
  for (int64_t w = begin / 64; w * 64 < end; ++w) {
    row[w] = bits_between(std::max<int64_t>(begin - w * 64, 0), std::min<int64_t>(end - w * 64, 64));
  }
}

void append_run(BandRow& out, int32_t n_begin, int32_t n_end, RunKind kind, int32_t bits) {
  (kind == RunKind::full ? out.full_tiles : out.partial_tiles) += n_end - n_begin;
  if (kind == RunKind::partial && !out.runs.empty()) {
    Run& last = out.runs.back();
    if (last.kind == RunKind::partial && last.n_end == n_begin && last.bits + (last.n_end - last.n_begin) == bits) {
      last.n_end = n_end;
      return;
    }
  }
  out.runs.push_back({n_begin, n_end, kind, bits});
}

}  // namespace

void band_row(const PlaneMask& plane, const Grid& grid, int32_t m_block, BandRow& out) {
  out.runs.clear();
  out.bits.clear();
  out.lines.clear();
  out.full_tiles = out.partial_tiles = 0;
  const int64_t first = grid.row_begin(m_block), count = grid.row_end(m_block + 1) - first;
  if (count <= 0 || grid.cols == 0) return;
  out.intervals.resize(static_cast<size_t>(count));
  fill_lines(plane, grid, first, count, out.intervals.data());
  for (int64_t i = 0; i < count; ++i) {
    const Interval& line = out.intervals[static_cast<size_t>(i)];
    if (line.begin < line.end) out.lines.push_back({static_cast<int32_t>(i), line.begin, line.end});
  }

  // Walk the tiles. Lines [low, high) are those that reach into tile n: both ends only move forward.
  const std::vector<BandRow::Line>& lines = out.lines;
  const int64_t words = grid.tile_n / 64;
  const auto words_per_tile = static_cast<size_t>(grid.tile_m * words);
  int32_t tiles_of_bits = 0;
  size_t low = 0, high = 0;
  int64_t n = lines.empty() ? 0 : lines.front().begin / grid.tile_n;
  while (low < lines.size()) {
    int64_t begin = n * grid.tile_n, end = std::min(begin + grid.tile_n, grid.cols);
    while (low < lines.size() && lines[low].end <= begin) ++low;
    if (low == lines.size()) break;
    if (lines[low].begin >= end) {  // a gap: nothing reaches into these tiles
      n = lines[low].begin / grid.tile_n;
      begin = n * grid.tile_n;
      end = std::min(begin + grid.tile_n, grid.cols);
    }
    high = std::max(high, low);
    while (high < lines.size() && lines[high].begin < end) ++high;

    // No line begins or ends inside the tile: it holds whole rows, and so do the next tiles up to one's end or
    // another's begin.
    int64_t n_end = n + 1;
    const bool whole_rows = lines[high - 1].begin <= begin && lines[low].end >= end;
    if (whole_rows) {
      n_end = lines[low].end == grid.cols ? grid.n_blocks : lines[low].end / grid.tile_n;
      if (high < lines.size()) n_end = std::min(n_end, lines[high].begin / grid.tile_n);
    }
    const bool full = whole_rows && static_cast<int64_t>(high - low) == count;
    // The plane's last tile may be narrower: as bits it differs from those before it.
    if (!full && n_end - n > 1 && n_end * grid.tile_n > grid.cols) --n_end;
    const auto tile_begin = static_cast<int32_t>(n), tile_end = static_cast<int32_t>(n_end);
    if (full) {
      append_run(out, tile_begin, tile_end, RunKind::full, 0);
    } else {
      out.bits.resize(out.bits.size() + words_per_tile);  // zeros
      uint64_t* tile = out.bits.data() + out.bits.size() - words_per_tile;
      for (size_t i = low; i < high; ++i) {
        set_bits(tile + lines[i].row * words, words, begin, lines[i].begin, std::min(lines[i].end, end));
      }
      append_run(out, tile_begin, tile_end, n_end - n > 1 ? RunKind::partial_same : RunKind::partial, tiles_of_bits++);
    }
    n = n_end;
  }
}

std::pair<int32_t, int32_t> band_span(const PlaneMask& plane, const Grid& grid, int32_t m_block) {
  const int64_t first = grid.row_begin(m_block), last = grid.row_end(m_block + 1) - 1;
  const Interval a = line_of(plane, grid, first), b = last == first ? a : line_of(plane, grid, last);
  if (a.begin >= b.end) return {0, 0};
  return {static_cast<int32_t>(a.begin / grid.tile_n),
          static_cast<int32_t>(b.end / grid.tile_n + (b.end % grid.tile_n != 0))};
}

}  // namespace anymask
