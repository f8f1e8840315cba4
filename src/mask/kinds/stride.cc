#include "mask/kinds/stride.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  leaf.args.ints[0] = min_of(in.integer(0), 4 * max_length);
  leaf.args.shift = plane.shift(in.top_left(1));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  std::vector<MaskArgument> arguments{{"", example::pick(rng, 1, std::max<int64_t>(shape.s_kv / 2, 1) + 2)}};
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("stride", arguments);
}

}  // namespace

KindRow stride_kind() {
  return {
      .kind = {.op = Op::stride,
               .name = "stride",
               .arguments = {{"n", ArgumentType::integer, true, "", "distance between kept keys"}, align_argument()},
               .keeps = "(p - kv) mod n == 0",
               .summary = "every n-th key, counted from the position (with window: dilated windows)",
               .example = "stride(3)",
               .random = random},
      .check = [](const LeafArguments& in) { require_positive(in, 0); },
      .bind = bind,
      .ops = leaf_ops<Stride>()};
}

}  // namespace anymask
