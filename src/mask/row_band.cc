// A plane that is one leaf, made without a mask.
#include "mask/bound_mask.h"
#include "mask/kinds/row_intervals.h"
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

}  // namespace anymask
