// Masks as values: composition, equality, digests. An operand of the same operator is taken into the list, so `a & b &
// c` is one instruction however it was put together; nothing else is rewritten (binding simplifies).
#include "mask/mask.h"

#include <algorithm>
#include <mutex>

#include "mask/bound_mask.h"
#include "mask/build.h"
#include "mask/leaf_memo.h"

namespace anymask {

struct Mask::Memo {
  uint32_t depth = 1;
  bool borrowed = false;  // contents may change: neither digest nor leaves are remembered
  LeafMemo leaves;
  std::once_flag once;
  Digest digest{};
};

namespace {

void check_depth(uint32_t depth) {
  if (depth > max_depth)
    fail_invalid("mask: the expression is nested ", depth, " levels deep; expected at most ", max_depth, ": split it");
}

Digest digest_of(const MaskProgram& program) {
  Hasher hasher;
  for (const Instruction& instruction : program.code) {
    hasher.add(static_cast<uint64_t>(instruction.op) | uint64_t{instruction.arity} << 32);
    hasher.add(uint64_t{instruction.int_count} | uint64_t{instruction.array_count} << 32);
  }
  hasher.add_bytes(program.ints.data(), static_cast<int64_t>(program.ints.size()) * 8);
  for (const Array& array : program.arrays) hasher.add(array_digest(array));
  return hasher.finish();
}

}  // namespace

Mask::Mask() : Mask(MaskProgram{.code = {Instruction{}}, .ints = {}, .arrays = {}}) {}

Mask::Mask(MaskProgram program) {
  const uint32_t depth = tree_of(program).depth;
  check_depth(depth);
  name_arrays(program);
  memo_ = std::make_shared<Memo>();
  memo_->depth = depth;
  memo_->borrowed =
      std::any_of(program.arrays.begin(), program.arrays.end(), [](const Array& array) { return !array.owned(); });
  program_ = std::make_shared<const MaskProgram>(std::move(program));
}

Mask Mask::leaf(std::string_view kind, std::span<const MaskArgument> arguments) {
  const MaskKind& found = require_kind(kind);
  if (is_operator(found.op)) fail_invalid(found.name, ": takes masks, not arguments: give it a list of masks");
  MaskProgram program;
  append_leaf(program, found, arguments);
  return Mask(std::move(program));
}

Mask Mask::combine(Op op, std::span<const Mask> operands) {
  MaskProgram program;
  uint32_t arity = 0;
  for (const Mask& operand : operands) {
    const MaskProgram& from = operand.program();
    const Instruction& root = from.code.back();
    const bool joins = (op == Op::op_and || op == Op::op_or) && root.op == op;
    append_program(program, from, from.code.size() - (joins ? 1 : 0));
    arity += joins ? root.arity : 1;
  }
  program.code.push_back(operator_instruction(program, op, arity));
  return Mask(std::move(program));
}

Mask operator&(const Mask& a, const Mask& b) { return Mask::combine(Op::op_and, std::array{a, b}); }
Mask operator|(const Mask& a, const Mask& b) { return Mask::combine(Op::op_or, std::array{a, b}); }
Mask operator~(const Mask& a) { return Mask::combine(Op::op_not, {&a, 1}); }

Mask Mask::per_batch(std::vector<Mask> masks) {
  if (masks.empty()) fail_invalid("per_batch: got no masks; expected one for each batch entry: give at least one");
  return combine(Op::per_batch, masks);
}

Mask Mask::per_head(std::vector<Mask> masks) {
  if (masks.empty()) fail_invalid("per_head: got no masks; expected h_q, h_kv or 1 of them: give at least one");
  return combine(Op::per_head, masks);
}

Mask Mask::with_arrays(std::vector<Array> arrays) const {
  MaskProgram program = *program_;
  program.arrays = std::move(arrays);
  return Mask(std::move(program));
}

LeafMemo* Mask::leaf_memo() const { return memo_->borrowed ? nullptr : &memo_->leaves; }

Mask Mask::select(std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv, const Workers& workers) const {
  Mask held = *this;
  if (memo_->borrowed) {
    held.memo_ = std::make_shared<Memo>();
    held.memo_->depth = memo_->depth;
  }
  bind(held, sequences, h_q, h_kv, {}, workers);
  return held;
}

Digest Mask::digest() const {
  if (memo_->borrowed) return digest_of(*program_);
  std::call_once(memo_->once, [this] { memo_->digest = digest_of(*program_); });
  return memo_->digest;
}

bool operator==(const Mask& a, const Mask& b) {
  if (a.program_ == b.program_) return true;
  const MaskProgram &x = a.program(), &y = b.program();
  return x.code == y.code && x.ints == y.ints && a.digest() == b.digest();
}

}  // namespace anymask
