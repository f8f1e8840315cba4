#include "plan/band_rows.h"

#include <algorithm>

#include "plan/bits.h"

namespace anymask {
namespace {

// The first q in [low, high) with beyond(interval(q)), or high: the ends are monotone, so the predicate is.
template <class Beyond>
int64_t first_row(const PlaneMask& plane, int64_t low, int64_t high, Beyond&& beyond) {
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (beyond(plane.interval(middle))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The queries that keep key `key`, sought between those of a smaller and of a larger key: queries from the first that
// ends beyond it to the first that begins beyond it.
Interval queries_of(const PlaneMask& plane, int64_t key, const Interval& smaller, const Interval& larger) {
  return {first_row(plane, smaller.begin, larger.begin, [key](const Interval& i) { return i.end > key; }),
          first_row(plane, smaller.end, larger.end, [key](const Interval& i) { return i.begin > key; })};
}

Interval line_of(const PlaneMask& plane, bool transposed, int64_t row, const Interval& before, const Interval& after) {
  return transposed ? queries_of(plane, row, before, after) : plane.interval(row);
}

// Lines strictly between `low` and `high`, whose own are known. Where those agree, so does all between: documents cost
// their borders, not their rows.
void fill_between(const PlaneMask& plane, bool transposed, int64_t first, int64_t low, int64_t high, Interval* lines) {
  if (high - low < 2) return;
  const Interval before = lines[low], after = lines[high];
  if (before.begin == after.begin && before.end == after.end) {
    std::fill(lines + low + 1, lines + high, before);
    return;
  }
  const int64_t middle = low + (high - low) / 2;
  lines[middle] = line_of(plane, transposed, first + middle, before, after);
  fill_between(plane, transposed, first, low, middle, lines);
  fill_between(plane, transposed, first, middle, high, lines);
}

// Intervals of columns of rows [first, first + count).
void fill_lines(const PlaneMask& plane, const Grid& grid, int64_t first, int64_t count, Interval* lines) {
  const Interval least{0, 0}, most{grid.cols, grid.cols};
  lines[0] = line_of(plane, grid.transposed, first, least, most);
  if (count == 1) return;
  lines[count - 1] = line_of(plane, grid.transposed, first + count - 1, lines[0], most);
  fill_between(plane, grid.transposed, first, 0, count - 1, lines);
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
  const Interval least{0, 0}, most{grid.cols, grid.cols};
  const Interval a = line_of(plane, grid.transposed, first, least, most);
  const Interval b = last == first ? a : line_of(plane, grid.transposed, last, a, most);
  if (a.begin >= b.end) return {0, 0};
  return {static_cast<int32_t>(a.begin / grid.tile_n),
          static_cast<int32_t>(b.end / grid.tile_n + (b.end % grid.tile_n != 0))};
}

}  // namespace anymask
