// topk(bias, window, among): of the keys that `among` keeps, the `window` largest biases of the row.
// What a row keeps is decided by two integers, found when the mask is bound (mask/select.h): a key whose code lies
// above `key`, or equals it and stands no further than `tie`. The candidates are an operand of their own, so they are
// not looked at here. Beside what BiasCodes reads: data[1] a TopkRow for each row, or with stride[1][0] = 0 one for
// all. Where the bias lies on a device ints[1] is the window and type[0] the bias's type: what selects there reads
// them.
#pragma once

#include "mask/kinds/bias_codes.h"

namespace anymask {

// Canonical: `key` is the code of the least bias kept and `tie` the last key kept that has it. A row that keeps every
// candidate with a bias above -inf has {the code of -inf, -1}; one that keeps nothing {INT32_MAX, -1}.
struct TopkRow {
  int32_t key, tie;
  friend bool operator==(const TopkRow&, const TopkRow&) = default;
};
inline constexpr TopkRow topk_nothing{INT32_MAX, -1};

struct Topk : BiasCodes {
  static ANYMASK_HOST_DEVICE TopkRow row(const LeafArgs& a, int64_t q) {
    return static_cast<const TopkRow*>(a.data[1])[q * a.stride[1][0]];
  }

  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) { return classify_by_words<Topk>(a, r); }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs&, const Rect&) { return Kept::partial; }
  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int32_t found = code_at(a, q, kv);
    const TopkRow kept = row(a, q);
    return found <= a.ints[0] && (found > kept.key || (found == kept.key && kv <= kept.tie));
  }
  static ANYMASK_HOST_DEVICE uint64_t word(const LeafArgs& a, int64_t q, int64_t kv_begin) {
    const TopkRow kept = row(a, q);
    const auto with_ties = [&](int64_t least) { return at_least(a, q, kv_begin, least); };
    const int64_t ties = kept.tie + 1 - kv_begin;  // so many keys of this word keep what equals `key`
    if (ties <= 0) return with_ties(int64_t{kept.key} + 1);
    const uint64_t bits = with_ties(kept.key);
    return ties >= 64 ? bits : bits & (bit_range(0, ties) | with_ties(int64_t{kept.key} + 1));
  }
};

}  // namespace anymask
