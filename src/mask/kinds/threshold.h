// threshold(bias, t): bias >= t; NaN is never kept. What is kept lies between the least code of a float >= t and
// infinity's (bias_codes.h). ints[1]: that least code.
#pragma once

#include "mask/kinds/bias_codes.h"

namespace anymask {

struct Threshold : BiasCodes {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    return classify_by_words<Threshold>(a, r);
  }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs&, const Rect&) { return Kept::partial; }
  static bool same_rows(const LeafArgs& a) { return a.stride[0][0] == 0; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int32_t found = code_at(a, q, kv);
    return a.ints[1] <= found && found <= a.ints[0];
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    return at_least(a, q, kv_begin, a.ints[1]);
  }
};

}  // namespace anymask
