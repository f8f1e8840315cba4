// documents(cu[, cu_kv]): the same document.
// ints: documents; what is added to a row before it is looked up (the shift to positions, or 0 when rows have their own
// offsets). data[0]: int64 [documents + 1] offsets of rows or positions; data[1]: of keys (the same array when only one
// was given).
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Documents {
  static ANYMASK_HOST_DEVICE const int64_t* cu(const LeafArgs& a, int which) {
    return static_cast<const int64_t*>(a.data[which]);
  }

  // Documents of rows and of keys are ranges: apart EMPTY, one and the same FULL. Exact, save that a document that has
  // rows but no keys (or keys but no rows) between others reads as PARTIAL.
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    const int64_t n = a.ints[0];
    const int64_t first_row = find_stretch(cu(a, 0), n, r.q_begin + a.ints[1]);
    const int64_t last_row = find_stretch(cu(a, 0), n, r.q_end - 1 + a.ints[1]);
    if (last_row < 0 || first_row >= n) return Kept::empty;
    // Against the bounds of those documents: no search among the keys.
    const int64_t keys_begin = first_row < 0 ? cu(a, 1)[0] : cu(a, 1)[first_row];
    const int64_t keys_end = last_row >= n ? cu(a, 1)[n] : cu(a, 1)[last_row + 1];
    if (r.kv_end <= keys_begin || r.kv_begin >= keys_end) return Kept::empty;
    return first_row == last_row && keys_begin <= r.kv_begin && r.kv_end <= keys_end ? Kept::full : Kept::partial;
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const Interval i = interval(a, q);
    return i.begin <= kv && kv < i.end;
  }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t q) {
    const int64_t n = a.ints[0];
    const int64_t document = find_stretch(cu(a, 0), n, q + a.ints[1]);
    if (document < 0) return {0, 0};
    if (document >= n) return {a.s_kv, a.s_kv};
    return {cu(a, 1)[document], cu(a, 1)[document + 1]};
  }
  // One search; the rows after walk from document to document.
  static ANYMASK_HOST_DEVICE void intervals(const LeafArgs& a, int64_t q_begin, int64_t rows, Interval* out) {
    const int64_t n = a.ints[0];
    int64_t document = find_stretch(cu(a, 0), n, q_begin + a.ints[1]);
    for (int64_t row = 0; row < rows;) {
      while (document < n && cu(a, 0)[document + 1] <= q_begin + row + a.ints[1]) ++document;
      int64_t row_end = rows;
      Interval kept{0, 0};
      if (document >= n) {
        kept = {a.s_kv, a.s_kv};
      } else {
        row_end = min_of(rows, cu(a, 0)[document + 1] - a.ints[1] - q_begin);
        if (document >= 0) kept = {cu(a, 1)[document], cu(a, 1)[document + 1]};
      }
      for (; row < row_end; ++row) out[row] = kept;
    }
  }
  static BandEnds ends(const LeafArgs& a) {
    BandEnd begin{.form = BandEnd::Form::stretch, .a = a.ints[1], .high = a.s_kv}, end;
    begin.rows = cu(a, 0);
    begin.values = cu(a, 1);
    begin.n = a.ints[0];
    end = begin;
    end.values = begin.values + 1;
    return {begin, end};
  }
};

}  // namespace anymask
