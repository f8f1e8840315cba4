#include "mask/kinds/block_diffusion.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const int64_t seq = in.integer(0);
  if (plane.s_kv % 2 != 0 || seq != plane.s_kv / 2) {
    fail_invalid("block_diffusion: seq is ", seq, "; expected 2 * seq = s_kv = ", plane.s_kv,
                 ": the keys are a noisy and a clean copy",
                 plane.s_kv % 2 == 0 ? cat(", so use ", plane.s_kv / 2) : "");
  }
  leaf.args.ints[0] = seq;
  leaf.args.ints[1] = min_of(in.integer(1), max_length);
  leaf.args.shift = plane.shift(in.top_left(2));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  if (shape.s_kv < 2 || shape.s_kv % 2 != 0) return Mask();
  std::vector<MaskArgument> arguments{{"", shape.s_kv / 2}, {"", example::pick(rng, 1, shape.s_kv / 2 + 1)}};
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("block_diffusion", arguments);
}

}  // namespace

KindRow block_diffusion_kind() {
  return {.kind = {.op = Op::block_diffusion,
                   .name = "block_diffusion",
                   .arguments = {{"seq", ArgumentType::integer, true, "", "positions of each half; 2 * seq = s_kv"},
                                 {"block", ArgumentType::integer, true, "", "positions a block"},
                                 align_argument()},
                   .keeps = "the noisy + clean mask of block diffusion training over 2 * seq positions: a noisy row "
                            "its own noisy block and the "
                            "clean blocks before it, a clean row the clean blocks up to its own",
                   .summary = "block diffusion training",
                   .example = "block_diffusion(8, 2)",
                   .random = random},
          .check =
              [](const LeafArguments& in) {
                require_positive(in, 0);
                require_positive(in, 1);
              },
          .bind = bind,
          .ops = leaf_ops<BlockDiffusion>()};
}

}  // namespace anymask
