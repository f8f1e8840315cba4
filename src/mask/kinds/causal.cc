#include "mask/kinds/causal.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {

KindRow causal_kind() {
  return {.kind = {.op = Op::causal,
                   .name = "causal",
                   .arguments = {align_argument()},
                   .keeps = "kv <= p",
                   .summary = "each position sees itself and what came before",
                   .example = "causal",
                   .random =
                       [](std::mt19937_64& rng, const ExampleShape&) {
                         std::vector<MaskArgument> arguments;
                         example::maybe_top_left(rng, arguments);
                         return Mask::leaf("causal", arguments);
                       }},
          .bind = [](const LeafArguments& in, const PlaneContext& plane,
                     BoundLeaf& leaf) { leaf.args.shift = plane.shift(in.top_left(0)); },
          .ops = leaf_ops<Causal>()};
}

}  // namespace anymask
