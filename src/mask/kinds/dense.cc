#include "mask/kinds/dense.h"

#include "mask/kind.h"
#include "mask/kinds/plane_words.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  require_rank(in, 0, {2, 4}, "[s_q or 1, s_kv], or 4-d with [b or 1, heads or 1] before it");
  const DType type = in.array(0)->view.dtype;
  if (type != DType::boolean && type != DType::u8) {
    fail_invalid(where(in, 0), " has type ", name_of(type),
                 "; expected bool or uint8, true = attend: compare it first, or use threshold");
  }
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = require_plane(in, 0, plane, plane.s_q, plane.s_kv, "[s_q or 1, s_kv]");
  leaf.args.data[0] = view.data;
  leaf.args.stride[0][0] = view.stride[0];
  leaf.args.stride[0][1] = view.stride[1];
  leaf.memory.push_back(in.array(0)->owner);
  hash_plane<Dense>(leaf, view);
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  std::vector<int64_t> axes;
  const int64_t planes = example::plane_axes(rng, shape, axes);
  axes.push_back(example::rows_or_one(rng, shape.s_q));
  axes.push_back(shape.s_kv);
  std::vector<uint8_t> values;
  const int64_t one_in = example::pick(rng, 2, 9);
  const bool wide = example::chance(rng, 2);  // any byte but 0 is true
  for (int64_t i = 0; i < planes * axes[axes.size() - 2] * axes.back(); ++i) {
    values.push_back(static_cast<uint8_t>(!example::chance(rng, one_in) ? 0 : wide ? example::pick(rng, 1, 255) : 1));
  }
  return Mask::leaf(
      "dense", std::vector<MaskArgument>{{"", example::bytes(rng, wide ? DType::u8 : DType::boolean, axes, values)}});
}

}  // namespace

KindRow dense_kind() {
  return {
      .kind = {.op = Op::dense,
               .name = "dense",
               .arguments = {{"array", ArgumentType::array, true, "",
                              "[s_q or 1, s_kv] bool or uint8, true = attend, or with [b or 1, heads or 1] before it"}},
               .keeps = "the boolean",
               .summary = "any mask, one boolean a pair",
               .example = "dense(@array)",
               .random = random},
      .axes = ArrayAxes::planes,
      .check = check,
      .bind = bind,
      .ops = leaf_ops<Dense>()};
}

}  // namespace anymask
