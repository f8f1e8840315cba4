// Intervals listed line by line: lines are rows and intervals hold keys (row_intervals), or the other way round
// (col_intervals). Each line's intervals are disjoint, ascending and do not touch; a line with fewer than n ends in
// void ones, which begin at the far end and end at 0, so that they widen no bound.
//
// LeafArgs. ints: n intervals a line, lines (1: the same for all), leaves of the bounds tree. data[0], data[1]: int64
// begins and ends [lines, n]. data[2]: IntervalBounds [n, 2 * leaves], a heap over blocks of 32 lines for each i-th
// interval. A row_band has no such leaves: its one interval a line moves forward, so the first and the last line bound
// all between them. -1 leaves: nobody knows bounds.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct IntervalBounds {        // over a range of lines
  int64_t min_begin, max_end;  // what any line may keep
  int64_t max_begin, min_end;  // what every line keeps
};

struct IntervalTable {
  static constexpr int64_t block = 32;
  static ANYMASK_HOST_DEVICE const int64_t* begins(const LeafArgs& a) { return static_cast<const int64_t*>(a.data[0]); }
  static ANYMASK_HOST_DEVICE const int64_t* ends(const LeafArgs& a) { return static_cast<const int64_t*>(a.data[1]); }
  static ANYMASK_HOST_DEVICE int64_t line_index(const LeafArgs& a, int64_t line) { return a.ints[1] == 1 ? 0 : line; }

  static ANYMASK_HOST_DEVICE bool holds(const LeafArgs& a, int64_t line, int64_t x) {
    const int64_t n = a.ints[0], first = line_index(a, line) * n;
    for (int64_t i = first; i < first + n; ++i) {
      if (begins(a)[i] <= x && x < ends(a)[i]) return true;
    }
    return false;
  }

  // Lines [line_begin, line_end) against [begin, end). Sound always, exact up to 4,096 intervals.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, int64_t line_begin, int64_t line_end, int64_t begin,
                                           int64_t end) {
    if (a.ints[1] == 1) line_begin = 0, line_end = 1;
    if ((line_end - line_begin) * a.ints[0] <= 128) return classify_lines(a, line_begin, line_end, begin, end);
    const Kept kept = sketch(a, line_begin, line_end, begin, end);
    const bool look = kept == Kept::partial && (line_end - line_begin) * a.ints[0] <= 4096;
    return look ? classify_lines(a, line_begin, line_end, begin, end) : kept;
  }
  // By bounds alone.
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs& a, int64_t line_begin, int64_t line_end, int64_t begin,
                                         int64_t end) {
    const int64_t n = a.ints[0];
    if (a.ints[1] == 1) line_begin = 0, line_end = 1;
    bool touched = false;
    for (int64_t i = 0; i < n; ++i) {
      const IntervalBounds b = bounds(a, i, line_begin, line_end);
      if (b.max_begin <= begin && end <= b.min_end) return Kept::full;
      touched |= b.min_begin < end && begin < b.max_end;
    }
    return touched ? Kept::partial : Kept::empty;
  }
  static ANYMASK_HOST_DEVICE Kept classify_lines(const LeafArgs& a, int64_t line_begin, int64_t line_end, int64_t begin,
                                                 int64_t end) {
    const int64_t n = a.ints[0];
    KeptSum sum;
    for (int64_t line = line_begin; line < line_end; ++line) {
      bool touched = false, covered = false;
      for (int64_t i = line * n; i < line * n + n; ++i) {
        touched |= begins(a)[i] < end && begin < ends(a)[i];
        covered |= begins(a)[i] <= begin && end <= ends(a)[i];
      }
      sum.add(covered ? Kept::full : touched ? Kept::partial : Kept::empty);
      if (sum.result() == Kept::partial) return Kept::partial;
    }
    return sum.result();
  }

  static ANYMASK_HOST_DEVICE IntervalBounds nothing() { return {INT64_MAX, 0, 0, INT64_MAX}; }
  static ANYMASK_HOST_DEVICE IntervalBounds join(const IntervalBounds& a, const IntervalBounds& b) {
    return {min_of(a.min_begin, b.min_begin), max_of(a.max_end, b.max_end), max_of(a.max_begin, b.max_begin),
            min_of(a.min_end, b.min_end)};
  }
  static ANYMASK_HOST_DEVICE IntervalBounds scan(const LeafArgs& a, int64_t i, int64_t line_begin, int64_t line_end,
                                                 IntervalBounds result) {
    for (int64_t line = line_begin; line < line_end; ++line) {
      const int64_t begin = begins(a)[line * a.ints[0] + i], end = ends(a)[line * a.ints[0] + i];
      result = join(result, {begin, end, begin, end});
    }
    return result;
  }
  static ANYMASK_HOST_DEVICE IntervalBounds bounds(const LeafArgs& a, int64_t i, int64_t line_begin, int64_t line_end) {
    if (a.ints[2] < 0) return {0, INT64_MAX, INT64_MAX, 0};
    if (a.ints[2] == 0) {
      const int64_t last = line_end - 1;
      return {begins(a)[line_begin], ends(a)[last], begins(a)[last], ends(a)[line_begin]};
    }
    int64_t low = (line_begin + block - 1) / block, high = line_end / block;  // whole blocks
    if (low >= high) return scan(a, i, line_begin, line_end, nothing());
    IntervalBounds result = scan(a, i, line_begin, low * block, nothing());
    result = scan(a, i, high * block, line_end, result);
    const IntervalBounds* heap = static_cast<const IntervalBounds*>(a.data[2]) + i * 2 * a.ints[2];
    for (low += a.ints[2], high += a.ints[2]; low < high; low /= 2, high /= 2) {
      if (low & 1) result = join(result, heap[low++]);
      if (high & 1) result = join(result, heap[--high]);
    }
    return result;
  }
};

}  // namespace anymask
