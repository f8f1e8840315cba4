#include "mask/kinds/threshold.h"

#include <cmath>

#include "mask/kinds/bias_leaf.h"
#include "mask/kinds/plane_words.h"

namespace anymask {
namespace {

// A float of this code.
double value_of(DType type, int32_t code) {
  const auto magnitude = static_cast<uint32_t>(code < 0 ? -code : code);
  const double value = type == DType::f32   ? std::bit_cast<float>(magnitude)
                       : type == DType::f16 ? f16_to_f32(static_cast<uint16_t>(magnitude))
                                            : bf16_to_f32(static_cast<uint16_t>(magnitude));
  return code < 0 ? -value : value;
}

void check(const LeafArguments& in) {
  check_bias(in, 0);
  if (std::isnan(in.real(1))) fail_invalid("threshold: t is NaN; expected a number: nothing compares with NaN");
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = bind_bias(in, 0, plane, leaf);
  // The least code of a float >= t: infinity's is one, as t is no NaN.
  auto high = static_cast<int32_t>(leaf.args.ints[0]), low = -high;
  while (low < high) {
    const auto middle = static_cast<int32_t>(floor_div(int64_t{low} + high, 2));
    if (value_of(view.dtype, middle) >= in.real(1)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  leaf.args.ints[1] = low;
  leaf.memory.push_back(in.array(0)->owner);
  hash_plane<Threshold>(leaf, view);
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  const Array array = example::bias(rng, shape, [&rng] {
    const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    return example::chance(rng, 10) ? special[example::pick(rng, 0, 4)]
                                    : static_cast<float>(example::pick(rng, -8, 8)) / 4;
  });
  const double t = example::chance(rng, 10) ? (example::chance(rng, 2) ? INFINITY : -INFINITY)
                                            : static_cast<double>(example::pick(rng, -9, 9)) / 4;
  return Mask::leaf("threshold", std::vector<MaskArgument>{{"", array}, {"", t}});
}

}  // namespace

KindRow threshold_kind() {
  return {.kind = {.op = Op::threshold,
                   .name = "threshold",
                   .arguments = {{"bias", ArgumentType::array, true, "", bias_shapes},
                                 {"t", ArgumentType::real, true, "", "the least value kept"}},
                   .keeps = "bias >= t; NaN is never kept",
                   .summary = "pairs whose bias is large enough",
                   .example = "threshold(@bias, 0.5)",
                   .random = random},
          .axes = ArrayAxes::planes,
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Threshold>()};
}

}  // namespace anymask
