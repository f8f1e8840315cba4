#include "mask/kinds/window.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  for (size_t side = 0; side < 2; ++side) {
    if (in.integer(side) < -1) {
      fail_invalid(where(in, side), " is ", in.integer(side),
                   "; expected 0 or more, or -1 for an open side: use -1 to see everything on it");
    }
  }
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const int64_t beyond = 2 * max_length;  // no two places of a plane are further apart
  leaf.args.shift = plane.shift(in.top_left(2));
  for (size_t side = 0; side < 2; ++side)
    leaf.args.ints[side] = in.integer(side) < 0 ? beyond : min_of(in.integer(side), beyond);
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  const int64_t widest = std::max<int64_t>(shape.s_kv, 1);
  std::vector<MaskArgument> arguments{{"", example::pick(rng, -1, widest)}, {"", example::pick(rng, -1, widest / 2)}};
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("window", arguments);
}

}  // namespace

KindRow window_kind() {
  return {.kind = {.op = Op::window,
                   .name = "window",
                   .arguments = {{"left", ArgumentType::integer, true, "", "keys seen before p, or -1 for all of them"},
                                 {"right", ArgumentType::integer, true, "", "keys seen after p, or -1 for all of them"},
                                 align_argument()},
                   .keeps = "p - left <= kv <= p + right; -1 leaves a side open",
                   .summary = "a sliding window around each position",
                   .example = "window(4, 0)",
                   .random = random},
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Window>()};
}

}  // namespace anymask
