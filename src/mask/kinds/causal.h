// causal: kv <= p.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct Causal {
  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) {
    return classify_causal(r.q_begin + a.shift, r.q_end + a.shift, r.kv_begin, r.kv_end);
  }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) { return kv <= q + a.shift; }
  static ANYMASK_HOST_DEVICE Interval interval(const LeafArgs& a, int64_t q) {
    return clip(0, q + a.shift + 1, a.s_kv);
  }
  static BandEnds ends(const LeafArgs& a) { return {{}, {.a = a.shift + 1, .high = a.s_kv}}; }
};

}  // namespace anymask
