// The host's side of a mask kind: what its .cc file gives beside the device-clean struct of its header.
//
// Adding a kind: an Op (program.h), kinds/<name>.h with the struct, kinds/<name>.cc with a function <name>_kind() that
// fills in a KindRow, and one line in kinds/list.h. Grammar, listing, serialisation, random masks and tests follow from
// the row.
//
// In a program the arguments of a leaf lie in the order of its specification: an integer, a real (the bits of its
// double) and an align (0 bottom-right, 1 top-left) take one int; an array takes one (1 given, 0 not) and, if given,
// the next array; `integers` take two: a form (0 not given, 1 an array, 2 a number) and the number. An integer that was
// not given is `not_given`. A mask takes none: it is the leaf's operand, before it in the code.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/workers.h"
#include "mask/digest.h"
#include "mask/kinds/common.h"
#include "mask/leaf.h"
#include "mask/registry.h"

namespace anymask {

inline constexpr int64_t not_given = std::numeric_limits<int64_t>::min();
inline constexpr int64_t max_length = int64_t{1}
                                      << 48;  // of a sequence, in rows or keys: sums and products by 2^14 fit 64 bits

struct KindRow;

// The arguments of one leaf of a program, by their place in the specification.
class LeafArguments {
 public:
  LeafArguments(const KindRow& row, const int64_t* ints, const Array* arrays)
      : row_(row), ints_(ints), arrays_(arrays) {}

  const KindRow& row() const { return row_; }
  int64_t integer(size_t argument) const { return ints_[slot(argument)]; }
  double real(size_t argument) const;
  bool top_left(size_t argument) const { return ints_[slot(argument)] == 1; }
  bool given(size_t argument) const;
  bool is_number(size_t argument) const;                                       // of `integers`: given as one number,
  int64_t number(size_t argument) const { return ints_[slot(argument) + 1]; }  // which is this
  const Array* array(size_t argument) const;                                   // null: not given, or given as a number

  size_t slot(size_t argument) const;
  size_t array_index(size_t argument) const;

 private:
  const KindRow& row_;
  const int64_t* ints_;
  const Array* arrays_;
};

class PlaneMask;

// The plane a leaf is bound to.
struct PlaneContext {
  int64_t s_q, s_kv;
  int64_t batch, num_sequences;        // this sequence, of so many
  int64_t head, h_q, h_kv;             // this query head
  Device reader;                       // who evaluates: its arrays need not be on the host
  Workers workers;                     // who helps
  const PlaneMask* operand = nullptr;  // the mask the leaf was given, of this plane; null: none
  int64_t shift(bool top_left) const { return top_left ? 0 : s_kv - s_q; }
};

struct LeafOps {
  Kept (*classify)(const LeafArgs&, const Rect&) = nullptr;
  bool (*keep)(const LeafArgs&, int64_t q, int64_t kv) = nullptr;
  // Rows inside the plane; keys at and beyond s_kv give any bits.
  void (*words)(const LeafArgs&, int64_t q_begin, int64_t rows, int64_t kv_begin, int64_t words,
                uint64_t* bits) = nullptr;
  Interval (*interval)(const LeafArgs&, int64_t q) = nullptr;                                  // band kinds alone
  void (*intervals)(const LeafArgs&, int64_t q_begin, int64_t rows, Interval* out) = nullptr;  // the same, of rows
  BandEnds (*ends)(const LeafArgs&) = nullptr;                                                 // band kinds that can
  bool (*same_rows)(const LeafArgs&) = nullptr;  // whether all rows keep the same keys; null: never known
};

// A leaf ready to be evaluated for one plane.
struct BoundLeaf {
  LeafArgs args;
  const LeafOps* ops = nullptr;
  std::vector<std::shared_ptr<const void>> memory;  // what args.data points into
  int64_t held_bytes[4] = {};  // of args.data that this leaf owns; 0: an array of the mask, read where it lies
  Digest digest{};

  // Its arrays lie on a device, where the host reads nothing: no function of `ops` may be called. Arrays that are read
  // where they lie are args.data already; what the host would hold is made on the device from the sources
  // (src/cuda/kernels/plan_prepare.cuh), held_bytes long, and args.data is null until then. Contents no check saw are
  // brought back to what a check would have passed, so that no read leaves its array.
  bool unread = false;
  LeafSource sources[2];
  Interval first{}, last{};  // of a band: bounds of its first and last row, whatever the contents
  // Of topk, whose rows are selected on the device before anyone evaluates it: the candidates; null: all keys.
  std::shared_ptr<const PlaneMask> among;

  // Moves values into memory this leaf owns, as data[slot].
  template <class T>
  void hold(int slot, std::vector<T> values) {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    args.data[slot] = owner->data();
    held_bytes[slot] = static_cast<int64_t>(owner->size() * sizeof(T));
    memory.push_back(std::move(owner));
  }
  // The same for values that tell planes apart: they enter the digest.
  void hold_values(int slot, std::vector<int64_t> values) {
    hasher.add_bytes(values.data(), static_cast<int64_t>(values.size()) * 8);
    hold(slot, std::move(values));
  }
  void make_on_device(int slot, int64_t bytes) {
    unread = true;
    held_bytes[slot] = bytes;
  }
  Hasher hasher;  // over contents; lengths, parameters and the kind are added after bind()
};

// Which axes of a kind's arrays count batch entries and heads.
enum class ArrayAxes : uint8_t {
  none,
  entries,  // rank 1: [b]
  rows,     // rank 2: [b, ...]; rank 1: the same for all
  planes,   // rank 4: [b or 1, heads or 1, ...]; below: the same for all
};

struct KindRow {
  MaskKind kind;
  ArrayAxes axes = ArrayAxes::none;
  bool remembered = false;  // binding reads every element, or more: a mask that cannot change keeps its leaves
  void (*check)(const LeafArguments&) = nullptr;  // what can be said without lengths
  void (*bind)(const LeafArguments&, const PlaneContext&, BoundLeaf&) = nullptr;
  LeafOps ops;
  bool device_arrays = true;  // arrays may lie on the device that evaluates
};

std::span<const KindRow> kind_rows();
const KindRow* find_row(Op op);  // null for operators and unknown numbers

// Ints and arrays of a leaf with these leading ints, or nothing when they are not of the form above.
size_t int_count(const KindRow& row);
bool well_formed(const KindRow& row, std::span<const int64_t> ints, size_t& array_count);
// Everything that can be checked without lengths: form, types, ranks, ranges.
void check_leaf(const LeafArguments& arguments);

// How many batch entries and heads tell planes of this leaf apart (1: none do).
struct Extents {
  int64_t batch = 1, heads = 1;
};
Extents extents_of(const LeafArguments& arguments);
// Checks device, batch and head extents of a leaf's arrays; they are all on the host, or all on the reader's device.
void check_extents(const LeafArguments& arguments, const PlaneContext& plane);
// Index along an axis of `extent` heads (1, h_kv or h_q) for this plane's query head.
int64_t head_index(int64_t extent, const PlaneContext& plane);
// An array argument's view at this plane's batch entry and head: leading axes dropped (entries: rank 0, one element).
TensorView plane_view(const LeafArguments& arguments, size_t argument, const PlaneContext& plane);
// Whether a leaf's arrays lie on a device, and one of them (integers or booleans of rank 0 to 2, as plane_view gives
// it) for the kernel that reads it there. It enters the digest by its place.
bool on_device(const LeafArguments& arguments);
LeafSource source_of(const TensorView& view, int64_t limit, BoundLeaf& leaf);
int64_t load_integer(const TensorView& view, int64_t offset);
std::vector<int64_t> load_integers(const TensorView& rank1);

// "documents: cu"
std::string where(const LeafArguments& arguments, size_t argument);
// Checks of arguments, with the error that names the way out.
void require_rank(const LeafArguments& arguments, size_t argument, std::initializer_list<int> ranks,
                  const char* shapes);
void require_positive(const LeafArguments& arguments, size_t argument);
// A [rows or 1, cols] view of a planes-kind array, checked against the lengths it must have.
TensorView require_plane(const LeafArguments& arguments, size_t argument, const PlaneContext& plane, int64_t rows,
                         int64_t cols, const char* expected);
// Offsets that start at 0 (or `first`), never decrease and end at `last`.
void require_offsets(const LeafArguments& arguments, size_t argument, const std::vector<int64_t>& offsets, int64_t last,
                     const char* last_name);

template <class Kind>
void words_of(const LeafArgs& a, int64_t q_begin, int64_t rows, int64_t kv_begin, int64_t words, uint64_t* bits);

// Intervals of rows, for kinds that find a row's faster from the row before.
template <class Kind>
void intervals_of(const LeafArgs& a, int64_t q_begin, int64_t rows, Interval* out) {
  if constexpr (requires { &Kind::intervals; }) {
    Kind::intervals(a, q_begin, rows, out);
  } else {
    for (int64_t row = 0; row < rows; ++row) out[row] = Kind::interval(a, q_begin + row);
  }
}

template <class Kind>
constexpr LeafOps leaf_ops() {
  LeafOps ops{&Kind::classify, &Kind::keep, nullptr, nullptr, nullptr, nullptr, nullptr};
  if constexpr (requires { &Kind::same_rows; }) ops.same_rows = &Kind::same_rows;
  if constexpr (requires { &Kind::words; }) {
    ops.words = &Kind::words;
  } else {
    ops.words = &words_of<Kind>;
  }
  if constexpr (requires { &Kind::interval; }) {
    ops.interval = &Kind::interval;
    ops.intervals = &intervals_of<Kind>;
  }
  if constexpr (requires { &Kind::ends; }) ops.ends = &Kind::ends;
  return ops;
}

// Words of a kind that gives less than words: a row of them, an interval, one word, in this order.
template <class Kind>
void words_of(const LeafArgs& a, int64_t q_begin, int64_t rows, int64_t kv_begin, int64_t words, uint64_t* bits) {
  if constexpr (
      !requires { &Kind::row_words; } && requires { &Kind::interval; }) {
    constexpr int64_t at_once = 64;
    Interval kept[at_once];
    for (int64_t row = 0; row < rows; row += at_once) {
      const int64_t count = rows - row < at_once ? rows - row : at_once;
      intervals_of<Kind>(a, q_begin + row, count, kept);
      for (int64_t i = 0; i < count; ++i, bits += words) {
        for (int64_t w = 0; w < words; ++w) bits[w] = interval_word(kept[i], kv_begin + 64 * w);
      }
    }
  } else {
    for (int64_t row = 0; row < rows; ++row, bits += words) {
      const int64_t q = q_begin + row;
      if constexpr (requires { &Kind::row_words; }) {
        Kind::row_words(a, q, kv_begin, words, bits);
      } else {
        for (int64_t w = 0; w < words; ++w)
          bits[w] = kv_begin + 64 * w < a.s_kv ? Kind::word(a, q, kv_begin + 64 * w) : 0;
      }
    }
  }
}

}  // namespace anymask
