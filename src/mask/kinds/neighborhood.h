// neighborhood(shape, kernel, dilation): of a 1-3-d grid flattened row-major, exactly `kernel` neighbours an axis, the
// window shifted inward at the edges; with a dilation, among the positions of the same residue. Rows off the grid keep
// nothing. ints: axes, then shape, kernel, dilation of three axes each, missing ones leading with 1.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Neighborhood {
  struct Box {  // a product of ranges
    int64_t begin[3], end[3];
  };
  static ANYMASK_HOST_DEVICE int64_t shape(const LeafArgs& a, int axis) { return a.ints[1 + axis]; }
  static ANYMASK_HOST_DEVICE int64_t kernel(const LeafArgs& a, int axis) { return a.ints[4 + axis]; }
  static ANYMASK_HOST_DEVICE int64_t dilation(const LeafArgs& a, int axis) { return a.ints[7 + axis]; }

  // First neighbour of x along an axis; the others follow at the dilation.
  static ANYMASK_HOST_DEVICE int64_t first_neighbour(const LeafArgs& a, int axis, int64_t x) {
    const int64_t d = dilation(a, axis), residue = x % d;
    const int64_t places = (shape(a, axis) - residue + d - 1) / d;  // positions of this residue
    return residue + d * clamp_to(x / d - kernel(a, axis) / 2, 0, places - kernel(a, axis));
  }
  static ANYMASK_HOST_DEVICE bool near(const LeafArgs& a, int axis, int64_t x, int64_t y) {
    const int64_t offset = y - first_neighbour(a, axis, x);
    return offset >= 0 && offset % dilation(a, axis) == 0 && offset / dilation(a, axis) < kernel(a, axis);
  }

  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    int64_t p = q + a.shift;
    if (p < 0 || p >= a.s_kv) return false;
    for (int axis = 2; axis >= 0; --axis) {
      if (!near(a, axis, p % shape(a, axis), kv % shape(a, axis))) return false;
      p /= shape(a, axis);
      kv /= shape(a, axis);
    }
    return true;
  }

  // Cuts the cells [begin, end) into at most five boxes: part of a line, rest of a plane, whole planes, and the same at
  // the end.
  static ANYMASK_HOST_DEVICE int boxes(const LeafArgs& a, int64_t begin, int64_t end, Box* out) {
    const int64_t z = shape(a, 2), y = shape(a, 1);
    int count = 0;
    while (begin < end) {
      const int64_t line = begin / z;
      int64_t next;
      if (begin % z != 0 || end - begin < z) {  // part of a line
        next = min_of(end, (line + 1) * z);
        out[count++] = {{line / y, line % y, begin % z}, {line / y + 1, line % y + 1, next - line * z}};
      } else if (line % y != 0 || end - begin < z * y) {  // whole lines of one plane
        const int64_t last = min_of(end / z, (line / y + 1) * y);
        next = last * z;
        out[count++] = {{line / y, line % y, 0}, {line / y + 1, last - line / y * y, z}};
      } else {  // whole planes
        const int64_t last = end / (z * y);
        next = last * z * y;
        out[count++] = {{line / y, 0, 0}, {last, y, z}};
      }
      begin = next;
    }
    return count;
  }

  // Along one axis, rows [x_begin, x_end) against keys [y_begin, y_end). Exact without dilation.
  static ANYMASK_HOST_DEVICE Kept classify_axis(const LeafArgs& a, int axis, int64_t x_begin, int64_t x_end,
                                                int64_t y_begin, int64_t y_end) {
    const int64_t n = shape(a, axis), k = kernel(a, axis), d = dilation(a, axis);
    if (d == 1) {  // windows move forward by at most one cell at a time: their union is a range
      const int64_t first = first_neighbour(a, axis, x_begin), last = first_neighbour(a, axis, x_end - 1);
      if (y_end <= first || last + k <= y_begin) return Kept::empty;
      return last <= y_begin && y_end <= first + k ? Kept::full : Kept::partial;
    }
    if (x_end - x_begin == 1 && y_end - y_begin == 1) return near(a, axis, x_begin, y_begin) ? Kept::full : Kept::empty;
    // Half a kernel to either side, or a whole one from an edge (the last position of a residue is n - d or beyond, the
    // first before d).
    const int64_t lowest = min_of(x_begin - d * (k / 2), n - d - d * (k - 1));
    const int64_t highest = max_of(x_end - 1 + d * (k / 2), d - 1 + d * (k - 1));
    return y_end <= lowest || highest < y_begin ? Kept::empty : Kept::partial;
  }

  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t p_begin = max_of(r.q_begin + a.shift, 0), p_end = min_of(r.q_end + a.shift, a.s_kv);
    if (p_begin >= p_end) return Kept::empty;
    KeptSum sum;
    if (p_end - p_begin < r.q_end - r.q_begin) sum.add(Kept::empty);
    Box rows[5], keys[5];
    const int row_count = boxes(a, p_begin, p_end, rows), key_count = boxes(a, r.kv_begin, r.kv_end, keys);
    for (int i = 0; i < row_count; ++i) {
      for (int j = 0; j < key_count; ++j) {
        Kept kept = Kept::full;
        for (int axis = 0; axis < 3; ++axis) {
          kept = kept_and(kept, classify_axis(a, axis, rows[i].begin[axis], rows[i].end[axis], keys[j].begin[axis],
                                              keys[j].end[axis]));
        }
        sum.add(kept);
        if (sum.result() == Kept::partial) return Kept::partial;
      }
    }
    return sum.result();
  }

  // Line by line of the grid: inside one line the kept cells are a range, or every dilation-th of one.
  static ANYMASK_HOST_DEVICE void row_words(const LeafArgs& a, int64_t q, int64_t kv_begin, int64_t words,
                                            uint64_t* bits) {
    for (int64_t w = 0; w < words; ++w) bits[w] = 0;
    const int64_t p = q + a.shift, z = shape(a, 2), y = shape(a, 1);
    if (p < 0 || p >= a.s_kv) return;
    const int64_t first = first_neighbour(a, 2, p % z), d = dilation(a, 2), last = first + d * (kernel(a, 2) - 1);
    const int64_t p_y = p / z % y, p_x = p / z / y, end = min_of(kv_begin + 64 * words, a.s_kv);
    for (int64_t line = kv_begin / z; line * z < end; ++line) {
      if (!near(a, 0, p_x, line / y) || !near(a, 1, p_y, line % y)) continue;
      const int64_t before = kv_begin - line * z - first;  // cells of this line in front of the words
      const int64_t begin = line * z + first + (before > 0 ? (before + d - 1) / d * d : 0) - kv_begin;
      const int64_t stop = min_of(line * z + last + 1 - kv_begin, 64 * words);
      for (int64_t bit = begin; bit < stop; bit += d) bits[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }
};

}  // namespace anymask
