// A mask bound to lengths: one PlaneMask for each *distinct* plane. Arguments are checked here, since lengths are
// known.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/problem.h"
#include "core/workers.h"
#include "mask/leaf.h"
#include "mask/mask.h"

namespace anymask {

struct BoundLeaf;

// One plane: rows [0, s_q) x keys [0, s_kv). Evaluation is pure and thread-safe.
// Integers of a mask's arrays were checked and copied; bits, booleans and biases are read where they lie: the mask
// keeps owned arrays alive, and a borrowed one must outlive the plane, unchanged.
class PlaneMask {
 public:
  int64_t s_q = 0, s_kv = 0;

  // Sound: empty and full are promises, partial is "look closer".
  Kept classify(const Rect& r) const;
  bool keep(int64_t q, int64_t kv) const;
  // Bit i = keep(q, kv_begin + i); keys at and beyond s_kv give 0. kv_begin is a multiple of 64.
  uint64_t word(int64_t q, int64_t kv_begin) const;
  // Words for rows [q_begin, q_begin + rows) x keys [kv_begin, kv_begin + 64 * words), row-major: bits[row * words +
  // w]. Rows at and beyond s_q give 0. The fast way to many words: a leaf may share work between rows.
  void words(int64_t q_begin, int64_t rows, int64_t kv_begin, int64_t words, uint64_t* bits) const;

  // True when every row keeps one interval whose ends never move backward as q grows; then interval(q) gives it, in
  // O(log) or better. Recognised forms: full, none, causal, window, keys, positions, prefix, documents, chunked, and
  // their intersections; unions and complements that provably are one interval, because their operands begin at key 0
  // in every row, or end at s_kv in every row (causal | prefix(n), ~causal). Always 0 <= begin <= end <= s_kv. A row
  // that keeps nothing has begin == end, at a place that keeps both ends monotone: so the keys of rows [q0, q1) lie in
  // [interval(q0).begin, interval(q1 - 1).end), and all of these rows keep [interval(q1 - 1).begin, interval(q0).end)
  // where that is not empty.
  bool is_band() const;
  Interval interval(int64_t q) const;
  // Those of rows [q_begin, q_begin + rows), all inside the plane: the fast way to many.
  void intervals(int64_t q_begin, int64_t rows, Interval* out) const;

  // Arrays of it lie on a device and the host knows no contents: nothing above may be called but is_band().
  bool unread() const;

  // Whether all rows keep the same keys, as far as the kinds say so. It may be asked of an unread plane too.
  bool same_rows() const;

  // Of program, lengths and array contents as this plane sees them (on a device: their places): equal digests, equal
  // planes.
  Digest digest() const;

  struct Code;  // plane_code.h: the flat form, for whoever evaluates it elsewhere
  const Code& code() const { return *code_; }

 private:
  friend class BoundMaskBuilder;
  friend PlaneMask row_band(int64_t s_q, int64_t s_kv, int64_t lines, const int64_t* begins, const int64_t* ends);
  friend PlaneMask banded(std::shared_ptr<BoundLeaf> leaf, const PlaneMask& among, const PlaneMask* within);
  std::shared_ptr<const Code> code_;
};

// A band that no mask says: row q keeps the keys [begins[q], ends[q]), or with one line every row [begins[0], ends[0]).
// The arrays lie on a device, where somebody will have written them before they are read: 0 <= begin <= end <= s_kv,
// and neither end moves backward.
PlaneMask row_band(int64_t s_q, int64_t s_kv, int64_t lines, const int64_t* begins, const int64_t* ends);

// topk(values, window, among) & within, where both are row_bands (null: nothing beside) and all rows have one row of
// values [s_kv], on a device as well.
PlaneMask largest_of_band(const PlaneMask& among, const PlaneMask* within, DType dtype, const void* values,
                          int64_t window);
// What rows [enters[kv], leaves[kv]) keep of each key & among & within, likewise.
PlaneMask columns_of_band(const PlaneMask& among, const PlaneMask* within, const int64_t* enters,
                          const int64_t* leaves);

struct BoundMask {
  std::vector<PlaneMask> planes;
  std::vector<int32_t> plane_of;  // [sequences, heads]
  int64_t heads = 1;              // 1, or h_q
  int32_t plane(int64_t sequence, int64_t h_q) const {
    return plane_of[static_cast<size_t>(sequence * heads + (heads == 1 ? 0 : h_q))];
  }
};

// Whether the `group` query heads of every kv head keep the same pairs.
inline bool groups_share_planes(const BoundMask& mask, int64_t group) {
  if (mask.heads == 1) return true;
  for (size_t i = 0; i < mask.plane_of.size(); ++i) {
    const size_t in_group = i % static_cast<size_t>(mask.heads) % static_cast<size_t>(group);
    if (mask.plane_of[i] != mask.plane_of[i - in_group]) return false;
  }
  return true;
}

// Binds `mask` to every sequence and head. Mask heads may number 1, h_kv or h_q. Equal planes are shared.
// Errors name the mask kind, the argument, the length it should have had. Arrays lie on the host, or on the device of
// who reads them: of these, shapes and types are checked and contents are not.
BoundMask bind(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv, Device reader = {},
               const Workers& workers = {});

}  // namespace anymask
