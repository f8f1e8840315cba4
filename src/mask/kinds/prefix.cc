#include "mask/kinds/prefix.h"

#include "mask/kind.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check_length(const LeafArguments& in, int64_t n) {
  if (n < 0) fail_invalid(where(in, 0), " holds ", n, "; expected 0 or more: it is a number of keys");
}

void check(const LeafArguments& in) {
  if (in.is_number(0)) check_length(in, in.number(0));
  require_rank(in, 0, {1}, "one number, or [b]: one for each batch entry");
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  int64_t n = in.number(0);
  if (on_device(in)) {
    leaf.sources[0] = source_of(plane_view(in, 0, plane), plane.s_kv, leaf);
    leaf.make_on_device(0, 8);
    leaf.last = {0, plane.s_kv};
    return;
  }
  if (in.array(0) != nullptr) {
    n = load_integer(plane_view(in, 0, plane), 0);
    check_length(in, n);
  }
  leaf.args.ints[0] = min_of(n, plane.s_kv);
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  if (example::chance(rng, 2) || shape.batch == 0)
    return Mask::leaf("prefix", std::vector<MaskArgument>{{"", example::pick(rng, 0, shape.s_kv + 1)}});
  std::vector<int64_t> n;
  for (int64_t b = 0; b < shape.batch; ++b) n.push_back(example::pick(rng, 0, shape.s_kv + 1));
  return Mask::leaf("prefix", std::vector<MaskArgument>{{"", example::integers(rng, {shape.batch}, n)}});
}

}  // namespace

KindRow prefix_kind() {
  return {.kind = {.op = Op::prefix,
                   .name = "prefix",
                   .arguments = {{"n", ArgumentType::integers, true, "",
                                  "keys kept: one number, or [b], one for each batch entry", true}},
                   .keeps = "kv < n; n one number or one per batch entry",
                   .summary = "the first n keys (causal | prefix(n) is prefix-LM)",
                   .example = "prefix(5)",
                   .random = random},
          .axes = ArrayAxes::entries,
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Prefix>()};
}

}  // namespace anymask
