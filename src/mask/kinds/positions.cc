#include "mask/kinds/positions.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  if (in.integer(0) > in.integer(1)) {
    fail_invalid("positions: a is ", in.integer(0), " and b is ", in.integer(1),
                 "; expected a <= b: positions(a, b) keeps a <= p < b");
  }
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const int64_t shift = plane.shift(in.top_left(2)), beyond = 2 * max_length;
  for (size_t end = 0; end < 2; ++end) {
    leaf.args.ints[end] = clamp_to(clamp_to(in.integer(end), -beyond, beyond) - shift, 0, plane.s_q);
  }
  if (leaf.args.ints[0] == leaf.args.ints[1]) leaf.args.ints[0] = leaf.args.ints[1] = 0;  // nothing, wherever it was
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  int64_t a = example::pick(rng, -2, shape.s_kv + 2), b = example::pick(rng, -2, shape.s_kv + 2);
  std::vector<MaskArgument> arguments{{"", std::min(a, b)}, {"", std::max(a, b)}};
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("positions", arguments);
}

}  // namespace

KindRow positions_kind() {
  return {.kind = {.op = Op::positions,
                   .name = "positions",
                   .arguments = {{"a", ArgumentType::integer, true, "", "first position that sees keys"},
                                 {"b", ArgumentType::integer, true, "",
                                  "end of the positions that see keys; beyond the rows it is clipped"},
                                 align_argument()},
                   .keeps = "a <= p < b",
                   .summary = "a range of query positions",
                   .example = "positions(4, 12)",
                   .random = random},
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Positions>()};
}

}  // namespace anymask
