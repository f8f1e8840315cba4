#include "mask/kinds/threshold.h"

#include <cmath>

#include "mask/kind.h"
#include "mask/kinds/plane_words.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

// The float whose order key this is.
double value_of(DType type, uint32_t key) {
  if (type == DType::f32) return std::bit_cast<float>(key & 0x80000000u ? key & 0x7fffffffu : ~key);
  const auto bits = static_cast<uint16_t>(key & 0x8000u ? key & 0x7fffu : ~key);
  return type == DType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

uint32_t key_of_infinity(DType type) {
  return type == DType::f32 ? Threshold::order_key(uint32_t{0x7f800000})
                            : Threshold::order_key(static_cast<uint16_t>(type == DType::f16 ? 0x7c00 : 0x7f80));
}
uint32_t key_of_minus_infinity(DType type) {
  return type == DType::f32 ? Threshold::order_key(uint32_t{0xff800000})
                            : Threshold::order_key(static_cast<uint16_t>(type == DType::f16 ? 0xfc00 : 0xff80));
}

void check(const LeafArguments& in) {
  require_rank(in, 0, {2, 4}, "[s_q or 1, s_kv], or 4-d with [b or 1, heads or 1] before it");
  const DType type = in.array(0)->view.dtype;
  if (!is_floating(type) || type == DType::f64) {
    fail_invalid(where(in, 0), " has type ", name_of(type), "; expected float32, float16 or bfloat16: convert it");
  }
  if (std::isnan(in.real(1))) fail_invalid("threshold: t is NaN; expected a number: nothing compares with NaN");
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = require_plane(in, 0, plane, plane.s_q, plane.s_kv, "[s_q or 1, s_kv]");
  // The least float >= t: +infinity is, as t is no NaN. Keys ascend with values, -0 just before 0, which compares equal
  // to it.
  uint32_t low = key_of_minus_infinity(view.dtype), high = key_of_infinity(view.dtype);
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (value_of(view.dtype, middle) >= in.real(1)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  leaf.args.ints[0] = low;
  leaf.args.ints[1] = key_of_infinity(view.dtype);
  leaf.args.data[0] = view.data;
  leaf.args.size[0] = size_of(view.dtype);
  leaf.args.stride[0][0] = view.stride[0];
  leaf.args.stride[0][1] = view.stride[1];
  leaf.memory.push_back(in.array(0)->owner);
  hash_plane<Threshold>(leaf, view);
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  std::vector<int64_t> axes;
  const int64_t planes = example::plane_axes(rng, shape, axes);
  axes.push_back(example::rows_or_one(rng, shape.s_q));
  axes.push_back(shape.s_kv);
  const DType type = std::array{DType::f32, DType::f16, DType::bf16}[example::pick(rng, 0, 2)];
  std::vector<float> values;
  std::vector<uint16_t> narrow;
  for (int64_t i = 0; i < planes * axes[axes.size() - 2] * axes.back(); ++i) {
    const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    values.push_back(example::chance(rng, 10) ? special[example::pick(rng, 0, 4)]
                                              : static_cast<float>(example::pick(rng, -8, 8)) / 4);
    narrow.push_back(type == DType::f16 ? f32_to_f16(values.back()) : f32_to_bf16(values.back()));
  }
  const Array array = type == DType::f32 ? example::arrange(rng, type, axes, values.data())
                                         : example::arrange(rng, type, axes, narrow.data());
  const double t = example::chance(rng, 10) ? (example::chance(rng, 2) ? INFINITY : -INFINITY)
                                            : static_cast<double>(example::pick(rng, -9, 9)) / 4;
  return Mask::leaf("threshold", std::vector<MaskArgument>{{"", array}, {"", t}});
}

}  // namespace

KindRow threshold_kind() {
  return {
      .kind = {.op = Op::threshold,
               .name = "threshold",
               .arguments = {{"bias", ArgumentType::array, true, "",
                              "[s_q or 1, s_kv] float32, float16 or bfloat16, or with [b or 1, heads or 1] before it"},
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
