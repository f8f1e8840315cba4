// Planes of a few leaves, made without a mask.
#include "mask/bound_mask.h"
#include "mask/kinds/bias_leaf.h"
#include "mask/kinds/col_intervals.h"
#include "mask/kinds/row_intervals.h"
#include "mask/kinds/topk.h"
#include "mask/plane_code.h"

namespace anymask {

PlaneMask row_band(int64_t s_q, int64_t s_kv, int64_t lines, const int64_t* begins, const int64_t* ends) {
  static constexpr LeafOps ops = leaf_ops<RowIntervals>();
  auto leaf = std::make_shared<BoundLeaf>();
  leaf->args.op = Op::row_intervals;
  leaf->args.s_q = s_q;
  leaf->args.s_kv = s_kv;
  leaf->args.ints[0] = 1;
  leaf->args.ints[1] = lines;
  leaf->args.data[0] = begins;
  leaf->args.data[1] = ends;
  leaf->ops = &ops;
  leaf->unread = true;

  auto code = std::make_shared<PlaneMask::Code>();
  code->steps = {{Step::leaf, false, 0}};
  code->band = true;
  code->unread = true;
  Hasher hasher;
  for (const int64_t number : {s_q, s_kv, lines}) hasher.add(static_cast<uint64_t>(number));
  hasher.add(reinterpret_cast<uintptr_t>(begins));
  leaf->digest = code->digest = hasher.finish();
  code->leaves = {std::move(leaf)};

  PlaneMask plane;
  plane.s_q = s_q;
  plane.s_kv = s_kv;
  plane.code_ = std::move(code);
  return plane;
}

// leaf & among, & within.
PlaneMask banded(std::shared_ptr<BoundLeaf> leaf, const PlaneMask& among, const PlaneMask* within) {
  leaf->args.s_q = among.s_q;
  leaf->args.s_kv = among.s_kv;
  leaf->unread = true;
  auto code = std::make_shared<PlaneMask::Code>();
  code->steps = {{Step::leaf, false, 0}, {Step::leaf, false, 1}, {Step::op_and, false, 0}};
  code->stack = 2;
  code->unread = true;
  Hasher hasher;
  for (const void* const data : leaf->args.data) hasher.add(reinterpret_cast<uintptr_t>(data));
  for (const int64_t number : leaf->args.ints) hasher.add(static_cast<uint64_t>(number));
  hasher.add(static_cast<uint64_t>(leaf->args.op));
  hasher.add(among.digest());
  leaf->digest = hasher.finish();
  code->leaves = {std::move(leaf), among.code().leaves[0]};
  if (within != nullptr) {
    code->steps.insert(code->steps.end(), {{Step::leaf, false, 2}, {Step::op_and, false, 0}});
    code->leaves.push_back(within->code().leaves[0]);
    hasher.add(within->digest());
  }
  code->digest = hasher.finish();

  PlaneMask plane;
  plane.s_q = among.s_q;
  plane.s_kv = among.s_kv;
  plane.code_ = std::move(code);
  return plane;
}

PlaneMask largest_of_band(const PlaneMask& among, const PlaneMask* within, DType dtype, const void* values,
                          int64_t window) {
  static constexpr LeafOps ops = leaf_ops<Topk>();
  auto leaf = std::make_shared<BoundLeaf>();
  leaf->args.op = Op::topk;
  leaf->args.ints[0] = infinity_code(dtype);
  leaf->args.ints[1] = min_of(window, among.s_kv);
  leaf->args.data[0] = values;
  leaf->args.size[0] = size_of(dtype);
  leaf->args.stride[0][1] = 1;
  leaf->args.stride[1][0] = 1;
  leaf->args.type[0] = static_cast<uint8_t>(dtype);
  leaf->make_on_device(1, among.s_q * static_cast<int64_t>(sizeof(TopkRow)));
  leaf->ops = &ops;
  leaf->among = std::make_shared<PlaneMask>(among);
  return banded(std::move(leaf), among, within);
}

PlaneMask columns_of_band(const PlaneMask& among, const PlaneMask* within, const int64_t* enters,
                          const int64_t* leaves) {
  static constexpr LeafOps ops = leaf_ops<ColIntervals>();
  auto leaf = std::make_shared<BoundLeaf>();
  leaf->args.op = Op::col_intervals;
  leaf->args.ints[0] = 1;
  leaf->args.ints[1] = among.s_kv;
  leaf->args.ints[2] = -1;
  leaf->args.data[0] = enters;
  leaf->args.data[1] = leaves;
  leaf->ops = &ops;
  return banded(std::move(leaf), among, within);
}

}  // namespace anymask
