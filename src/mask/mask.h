// A mask: what is kept, as a value. Immutable, cheap to copy, printable, hashable; composed with & | ~.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/workers.h"
#include "mask/program.h"

namespace anymask {

using Digest = std::array<uint64_t, 2>;  // 128 bits over program and array contents

struct MaskArgument;
struct Sequence;
class LeafMemo;

class Mask {
 public:
  Mask();  // full

  // leaf("window", {{"left", 1023}, {"right", 0}}): looks the kind up in the registry; checks number, names, types,
  // ranges of the arguments, as far as that can be done without lengths.
  static Mask leaf(std::string_view kind, std::span<const MaskArgument> arguments);
  static Mask per_batch(std::vector<Mask> masks);
  static Mask per_head(std::vector<Mask> masks);

  // Text: `causal & documents(@cu) | keys(0, 4)`. Errors point at the column and suggest the nearest name.
  static Mask parse(std::string_view text, std::span<const Array> arrays = {});
  // Parses back to an equal mask, given `program().arrays` that have names.
  std::string str() const;

  // Versioned. Arrays are contained. Unknown versions and corrupt bytes are refused.
  std::vector<uint8_t> to_bytes() const;
  static Mask from_bytes(std::span<const uint8_t> bytes);

  // The same over other arrays of the same shapes, in the order of program().arrays.
  Mask with_arrays(std::vector<Array> arrays) const;

  // Over the program and the contents of its arrays; remembered unless an array is borrowed (its contents may change).
  // An array on a device counts as its place.
  Digest digest() const;

  const MaskProgram& program() const { return *program_; }

  // The same mask, holding what its topk selects at these lengths: binding it to them selects nothing again, though its
  // arrays be borrowed. They must not change as long as it is used. A mask that owns its arrays does so by itself, with
  // the lengths it met last.
  Mask select(std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv, const Workers& workers = {}) const;

  friend Mask operator&(const Mask& a, const Mask& b);
  friend Mask operator|(const Mask& a, const Mask& b);
  friend Mask operator~(const Mask& a);
  // The same program and the same array contents (names do not matter).
  friend bool operator==(const Mask& a, const Mask& b);

 private:
  friend class BoundMaskBuilder;
  struct Memo;
  explicit Mask(MaskProgram program);
  static Mask combine(Op op, std::span<const Mask> operands);
  LeafMemo* leaf_memo() const;  // null: arrays may change
  std::shared_ptr<const MaskProgram> program_;
  std::shared_ptr<Memo> memo_;
};

// One argument of a leaf: `name` may be empty (by position).
struct MaskArgument {
  std::string name;
  std::variant<int64_t, double, std::vector<int64_t>, Array, std::string, Mask> value;
};

}  // namespace anymask
