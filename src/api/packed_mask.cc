#include "api/packed_mask.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"
#include "mask/registry.h"

namespace anymask {
namespace {

// Kinds that keep the same pairs wherever a sequence begins.
bool by_distance(Op op) {
  constexpr std::array kinds = {Op::full,   Op::none,  Op::causal, Op::window,  Op::stride,
                                Op::op_and, Op::op_or, Op::op_not, Op::per_head};
  return std::find(kinds.begin(), kinds.end(), op) != kinds.end();
}
bool without_positions(Op op) { return by_distance(op) && op != Op::causal && op != Op::window && op != Op::stride; }

const char* kind_name(Op op) {
  for (const MaskKind& kind : mask_kinds()) {
    if (kind.op == op) return kind.name;
  }
  return "an operator";
}

void check_offsets(const char* operation, const char* name, const TensorView& cu) {
  if (cu.rank != 1 || cu.shape[0] < 1)
    fail_invalid(operation, ": ", name, " has shape ", cu,
                 "; expected [sequences + 1]: pass one offset more than there ", "are sequences");
  if (!is_integer(cu.dtype))
    fail_invalid(operation, ": ", name, " is ", name_of(cu.dtype), "; expected int32 or int64: convert it");
}

}  // namespace

Mask packed_mask(const char* operation, const Mask& mask, const TensorView& cu_q, const TensorView& cu_kv,
                 bool own_kv) {
  check_offsets(operation, "cu_seqlens_q", cu_q);
  if (own_kv) check_offsets(operation, "cu_seqlens_kv", cu_kv);
  for (const Instruction& instruction : mask.program().code) {
    if (own_kv ? without_positions(instruction.op) : by_distance(instruction.op)) continue;
    fail_unsupported(operation,
                     ": cu_seqlens_q is on the device, so that the sequences' lengths are not known, and the ",
                     "mask holds ", kind_name(instruction.op), "; expected ",
                     own_kv ? "full, none and per_head, as cu_seqlens_kv differs from cu_seqlens_q"
                            : "causal, window, stride and what is composed of them",
                     ": pass cu_seqlens on the CPU");
  }
  std::vector<MaskArgument> offsets{{"", Array::borrow(cu_q, "cu_seqlens_q")}};
  if (own_kv) offsets.push_back({"", Array::borrow(cu_kv, "cu_seqlens_kv")});
  return mask & Mask::leaf("documents", offsets);
}

}  // namespace anymask
