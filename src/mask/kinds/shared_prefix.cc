#include "mask/kinds/shared_prefix.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  if (in.integer(0) < 0)
    fail_invalid(where(in, 0), " is ", in.integer(0), "; expected 0 or more: it is a number of keys");
  require_rank(in, 1, {1, 2}, "[segments], or [b, segments]");
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const int64_t n = in.integer(0);
  if (n > plane.s_kv)
    fail_invalid("shared_prefix: n is ", n, "; expected at most s_kv = ", plane.s_kv,
                 ": n + sum(lengths) must be s_kv");
  leaf.args.shift = plane.shift(in.top_left(2));
  leaf.args.ints[0] = n;
  if (on_device(in)) {
    leaf.sources[0] = source_of(plane_view(in, 1, plane), plane.s_kv, leaf);
    leaf.args.ints[1] = leaf.sources[0].extent[0];
    leaf.make_on_device(0, (leaf.args.ints[1] + 1) * 8);
    return;
  }
  std::vector<int64_t> offsets{n};
  for (const int64_t length : load_integers(plane_view(in, 1, plane))) {
    if (length < 0)
      fail_invalid(where(in, 1), " holds ", length, "; expected 0 or more: each is the length of a segment");
    if (length > plane.s_kv - offsets.back()) {
      fail_invalid(where(in, 1), " and n sum to more than s_kv = ", plane.s_kv,
                   "; expected n + sum(lengths) = s_kv: shorten them");
    }
    offsets.push_back(offsets.back() + length);
  }
  if (offsets.back() != plane.s_kv) {
    fail_invalid("shared_prefix: n + sum(lengths) is ", offsets.back(), "; expected s_kv = ", plane.s_kv,
                 ": add the missing ", plane.s_kv - offsets.back(), " positions to n or to a segment");
  }
  leaf.args.ints[1] = static_cast<int64_t>(offsets.size()) - 1;
  leaf.hold_values(0, std::move(offsets));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  const int64_t n = example::pick(rng, 0, shape.s_kv), segments = example::pick(rng, n == shape.s_kv ? 0 : 1, 5);
  const int64_t rows = example::chance(rng, 3) && shape.batch > 0 ? shape.batch : 0;
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < std::max<int64_t>(rows, 1); ++b) {
    const std::vector<int64_t> offsets = example::offsets(rng, segments, shape.s_kv - n);
    for (int64_t i = 0; i < segments; ++i) lengths.push_back(offsets[i + 1] - offsets[i]);
  }
  std::vector<MaskArgument> arguments{
      {"", n},
      {"", example::integers(rng, rows > 0 ? std::vector<int64_t>{rows, segments} : std::vector<int64_t>{segments},
                             lengths)}};
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("shared_prefix", arguments);
}

}  // namespace

KindRow shared_prefix_kind() {
  return {.kind = {.op = Op::shared_prefix,
                   .name = "shared_prefix",
                   .arguments = {{"n", ArgumentType::integer, true, "", "positions of the prefix"},
                                 {"lengths", ArgumentType::integers, true, "",
                                  "length of each segment, [segments] or [b, segments]; n + sum(lengths) = s_kv"},
                                 align_argument()},
                   .keeps = "kv <= p and (kv < n, or p and kv lie in the same segment)",
                   .summary = "a prefix all see, segments after it causal inside and blind to each other",
                   .example = "shared_prefix(6, [4, 3, 3])",
                   .random = random},
          .axes = ArrayAxes::rows,
          .check = check,
          .bind = bind,
          .ops = leaf_ops<SharedPrefix>()};
}

}  // namespace anymask
