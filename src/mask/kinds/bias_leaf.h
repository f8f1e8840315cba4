// The host's side of a kind that keeps keys by a bias: its check, its leaf, examples of it.
#pragma once

#include <vector>

#include "mask/kind.h"
#include "mask/kinds/bias_codes.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {

// What the argument is, for its row in the registry.
inline constexpr const char* bias_shapes =
    "[s_q or 1, s_kv] float32, float16 or bfloat16, or with [b or 1, heads or 1] before it";

inline int32_t infinity_code(DType type) {
  return type == DType::f32 ? 0x7f800000 : type == DType::f16 ? 0x7c00 : 0x7f80;
}

inline void check_bias(const LeafArguments& in, size_t argument) {
  require_rank(in, argument, {2, 4}, "[s_q or 1, s_kv], or 4-d with [b or 1, heads or 1] before it");
  const DType type = in.array(argument)->view.dtype;
  if (!is_floating(type) || type == DType::f64) {
    fail_invalid(where(in, argument), " has type ", name_of(type),
                 "; expected float32, float16 or bfloat16: convert it");
  }
}

// Fills in what BiasCodes reads; the plane's view.
inline TensorView bind_bias(const LeafArguments& in, size_t argument, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = require_plane(in, argument, plane, plane.s_q, plane.s_kv, "[s_q or 1, s_kv]");
  leaf.args.ints[0] = infinity_code(view.dtype);
  leaf.args.data[0] = view.data;
  leaf.args.size[0] = size_of(view.dtype);
  leaf.args.stride[0][0] = view.stride[0];
  leaf.args.stride[0][1] = view.stride[1];
  return view;
}

namespace example {

// A bias of any type and shape, of values that `next` gives.
template <class Next>
Array bias(std::mt19937_64& rng, const ExampleShape& shape, Next&& next) {
  std::vector<int64_t> axes;
  const int64_t planes = plane_axes(rng, shape, axes);
  axes.push_back(rows_or_one(rng, shape.s_q));
  axes.push_back(shape.s_kv);
  const DType type = std::array{DType::f32, DType::f16, DType::bf16}[pick(rng, 0, 2)];
  std::vector<float> values;
  std::vector<uint16_t> narrow;
  for (int64_t i = 0; i < planes * axes[axes.size() - 2] * axes.back(); ++i) {
    values.push_back(next());
    narrow.push_back(type == DType::f16 ? f32_to_f16(values.back()) : f32_to_bf16(values.back()));
  }
  return type == DType::f32 ? arrange(rng, type, axes, values.data()) : arrange(rng, type, axes, narrow.data());
}

}  // namespace example
}  // namespace anymask
