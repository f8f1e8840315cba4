#include "mask/kinds/chunked.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  leaf.args.ints[0] = min_of(in.integer(0), 2 * max_length);
  leaf.args.shift = plane.shift(in.top_left(1));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  std::vector<MaskArgument> arguments{{"", example::pick(rng, 1, shape.s_kv + 2)}};
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("chunked", arguments);
}

}  // namespace

KindRow chunked_kind() {
  return {.kind = {.op = Op::chunked,
                   .name = "chunked",
                   .arguments = {{"size", ArgumentType::integer, true, "", "positions a chunk"}, align_argument()},
                   .keeps = "p / size == kv / size",
                   .summary = "chunks of equal size, blind to each other",
                   .example = "chunked(4)",
                   .random = random},
          .check = [](const LeafArguments& in) { require_positive(in, 0); },
          .bind = bind,
          .ops = leaf_ops<Chunked>()};
}

}  // namespace anymask
