#include "mask/kinds/bits.h"

#include "mask/kind.h"
#include "mask/kinds/plane_words.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  require_rank(in, 0, {2, 4}, "[s_q or 1, ceil(s_kv / 8)], or 4-d with [b or 1, heads or 1] before it");
  if (in.array(0)->view.dtype != DType::u8) {
    fail_invalid(where(in, 0), " has type ", name_of(in.array(0)->view.dtype),
                 "; expected uint8, eight keys a byte: pack it, or use dense");
  }
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = require_plane(in, 0, plane, plane.s_q, (plane.s_kv + 7) / 8, "[s_q or 1, ceil(s_kv / 8)]");
  leaf.args.data[0] = view.data;
  leaf.args.size[0] = view.shape[1];
  leaf.args.stride[0][0] = view.stride[0];
  leaf.args.stride[0][1] = view.stride[1];
  leaf.memory.push_back(in.array(0)->owner);
  hash_plane<Bits>(leaf, view);
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  std::vector<int64_t> axes;
  const int64_t planes = example::plane_axes(rng, shape, axes);
  axes.push_back(example::rows_or_one(rng, shape.s_q));
  axes.push_back((shape.s_kv + 7) / 8);
  std::vector<uint8_t> packed;
  const int64_t sparse = example::pick(rng, 0, 2);
  for (int64_t i = 0; i < planes * axes[axes.size() - 2] * axes.back(); ++i) {
    packed.push_back(static_cast<uint8_t>(sparse == 0               ? rng()
                                          : sparse == 1             ? rng() & rng() & rng()
                                          : example::chance(rng, 8) ? rng()
                                                                    : 0));
  }
  return Mask::leaf("bits", std::vector<MaskArgument>{{"", example::bytes(rng, DType::u8, axes, packed)}});
}

}  // namespace

KindRow bits_kind() {
  return {
      .kind =
          {.op = Op::bits,
           .name = "bits",
           .arguments =
               {{"packed", ArgumentType::array, true, "",
                 "[s_q or 1, ceil(s_kv / 8)] uint8, little-endian in a byte, or with [b or 1, heads or 1] before it"}},
           .keeps = "the bit (little-endian in a byte, rows padded to bytes)",
           .summary = "any mask, one bit a pair",
           .example = "bits(@packed)",
           .random = random},
      .axes = ArrayAxes::planes,
      .check = check,
      .bind = bind,
      .ops = leaf_ops<Bits>()};
}

}  // namespace anymask
