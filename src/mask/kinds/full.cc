#include "mask/kinds/full.h"

#include "mask/kind.h"

namespace anymask {

KindRow full_kind() {
  return {.kind = {.op = Op::full,
                   .name = "full",
                   .arguments = {},
                   .keeps = "always",
                   .summary = "every query sees every key",
                   .example = "full",
                   .random = [](std::mt19937_64&, const ExampleShape&) { return Mask::leaf("full", {}); }},
          .bind = [](const LeafArguments&, const PlaneContext&, BoundLeaf&) {},
          .ops = leaf_ops<Full>()};
}

KindRow none_kind() {
  return {.kind = {.op = Op::none,
                   .name = "none",
                   .arguments = {},
                   .keeps = "never",
                   .summary = "no query sees any key",
                   .example = "none",
                   .random = [](std::mt19937_64&, const ExampleShape&) { return Mask::leaf("none", {}); }},
          .bind = [](const LeafArguments&, const PlaneContext&, BoundLeaf&) {},
          .ops = leaf_ops<None>()};
}

}  // namespace anymask
