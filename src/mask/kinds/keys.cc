#include "mask/kinds/keys.h"

#include "mask/kind.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  if (in.integer(0) > in.integer(1)) {
    fail_invalid("keys: a is ", in.integer(0), " and b is ", in.integer(1),
                 "; expected a <= b: keys(a, b) keeps a <= kv < b");
  }
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  for (size_t end = 0; end < 2; ++end) leaf.args.ints[end] = clamp_to(in.integer(end), 0, plane.s_kv);
  if (leaf.args.ints[0] == leaf.args.ints[1]) leaf.args.ints[0] = leaf.args.ints[1] = 0;  // nothing, wherever it was
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  int64_t a = example::pick(rng, -2, shape.s_kv + 2), b = example::pick(rng, -2, shape.s_kv + 2);
  return Mask::leaf("keys", std::vector<MaskArgument>{{"", std::min(a, b)}, {"", std::max(a, b)}});
}

}  // namespace

KindRow keys_kind() {
  return {.kind = {.op = Op::keys,
                   .name = "keys",
                   .arguments = {{"a", ArgumentType::integer, true, "", "first key kept"},
                                 {"b", ArgumentType::integer, true, "",
                                  "end of the keys kept; beyond the keys it is clipped"}},
                   .keeps = "a <= kv < b",
                   .summary = "a range of keys: sinks, padding",
                   .example = "keys(0, 4)",
                   .random = random},
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Keys>()};
}

}  // namespace anymask
