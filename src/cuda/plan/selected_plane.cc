#include "cuda/plan/selected_plane.h"

#include <algorithm>
#include <utility>

#include "mask/plane_code.h"

namespace anymask {
namespace {

using Operands = std::vector<Operand>;

// The operands of the plane's outermost conjunction; the plane itself where it is none.
Operands operands_of(const PlaneMask& plane) {
  std::vector<Operands> stack;  // a value of the plane's own evaluation: what it is the conjunction of
  const auto pop = [&stack] {
    Operands value = std::move(stack.back());
    stack.pop_back();
    return value;
  };
  for (const PlaneStep& step : plane.code().steps) {
    switch (step.step) {
      case Step::skip_if_empty:
      case Step::skip_if_full:
        break;
      case Step::op_and: {
        const Operands right = pop();
        stack.back().insert(stack.back().end(), right.begin(), right.end());
        break;
      }
      case Step::op_not: {
        Operand operand = conjunction_of(pop());
        operand.push_back({step, nullptr});
        stack.push_back({std::move(operand)});
        break;
      }
      case Step::op_or: {
        const Operand right = conjunction_of(pop());
        Operand operand = conjunction_of(pop());
        operand.insert(operand.end(), right.begin(), right.end());
        operand.push_back({step, nullptr});
        stack.push_back({std::move(operand)});
        break;
      }
      default:
        stack.push_back({{{step, step.step == Step::leaf ? plane.code().leaves[step.at].get() : nullptr}}});
    }
  }
  return pop();
}

bool same(const Operand& a, const Operand& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const OperandStep& x, const OperandStep& y) {
    return x.step.step == y.step.step && (x.leaf == nullptr || x.leaf->digest == y.leaf->digest);
  });
}

}  // namespace

bool is_selected(const BoundLeaf& leaf) { return leaf.args.op == Op::topk && leaf.unread && leaf.held_bytes[1] > 0; }

int32_t level_of(const BoundLeaf& leaf) {
  int32_t level = 0;
  if (leaf.among == nullptr) return level;
  for (const auto& other : leaf.among->code().leaves)
    if (is_selected(*other)) level = std::max(level, 1 + level_of(*other));
  return level;
}

Operand conjunction_of(const std::vector<Operand>& operands) {
  Operand all;
  for (const Operand& operand : operands) {
    all.insert(all.end(), operand.begin(), operand.end());
    if (&operand != operands.data()) all.push_back({{.step = Step::op_and}, nullptr});
  }
  return all;
}

std::optional<SelectedPlane> selected_plane(const PlaneMask& plane) {
  const Operands operands = operands_of(plane);
  SelectedPlane found{};
  for (const Operand& operand : operands) {  // candidates that are selected have lower levels
    const BoundLeaf* const leaf = operand.size() == 1 ? operand[0].leaf : nullptr;
    if (leaf == nullptr || !is_selected(*leaf)) continue;
    if (found.topk == nullptr || level_of(*leaf) > level_of(*found.topk)) found.topk = leaf;
  }
  if (found.topk == nullptr) return std::nullopt;
  const Operands candidates = found.topk->among != nullptr ? operands_of(*found.topk->among) : Operands{};
  for (const Operand& operand : operands) {
    const BoundLeaf* const leaf = operand.size() == 1 ? operand[0].leaf : nullptr;
    if (leaf == found.topk) continue;
    const bool band = leaf != nullptr && leaf->ops->interval != nullptr;
    if (band) found.bounds.push_back(leaf);
    const auto is_operand = [&operand](const Operand& other) { return same(operand, other); };
    if (std::any_of(candidates.begin(), candidates.end(), is_operand)) continue;
    const auto selects = [](const OperandStep& step) { return step.leaf != nullptr && is_selected(*step.leaf); };
    if (std::any_of(operand.begin(), operand.end(), selects)) return std::nullopt;
    found.rest.push_back(operand);
    found.rest_is_bands &= band;
  }
  return found;
}

bool is_shared(const SelectedPlane& plane) {
  return plane.rest_is_bands && plane.topk->args.stride[1][0] == 0 && level_of(*plane.topk) == 0;
}

bool is_banded(const SelectedPlane& plane) {
  const PlaneMask* const among = plane.topk->among.get();
  return plane.rest_is_bands && plane.topk->args.stride[0][0] == 0 && level_of(*plane.topk) == 0 &&
         (among == nullptr || (among->is_band() && !among->unread()));
}

}  // namespace anymask
