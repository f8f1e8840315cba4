#include "mask/kinds/neighborhood.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

// One number an axis: a list of as many, or one number for all.
std::vector<int64_t> axis_values(const LeafArguments& in, size_t argument, size_t axes) {
  if (in.is_number(argument)) return std::vector<int64_t>(axes, in.number(argument));
  std::vector<int64_t> values = load_integers(in.array(argument)->view);
  if (values.size() != axes) {
    fail_invalid(where(in, argument), " has ", values.size(), " numbers; expected ", axes,
                 ", one for each axis of shape: or one number for all");
  }
  return values;
}

void check(const LeafArguments& in) {
  for (size_t i = 0; i < 3; ++i) require_rank(in, i, {1}, "one number, or a list of one for each axis");
  if (const Array* shape = in.array(0); shape && (shape->view.shape[0] < 1 || shape->view.shape[0] > 3)) {
    fail_invalid("neighborhood: shape has ", shape->view.shape[0],
                 " axes; expected 1, 2 or 3: flatten the others away");
  }
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const std::vector<int64_t> shape =
      in.is_number(0) ? std::vector<int64_t>{in.number(0)} : load_integers(in.array(0)->view);
  const std::vector<int64_t> kernel = axis_values(in, 1, shape.size()), dilation = axis_values(in, 2, shape.size());
  int64_t cells = 1;
  for (int64_t* value = leaf.args.ints; value != leaf.args.ints + 10; ++value) *value = 1;
  leaf.args.ints[0] = static_cast<int64_t>(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t n = shape[axis], k = kernel[axis], d = dilation[axis];
    if (n < 1)
      fail_invalid("neighborhood: shape is ", n, " on axis ", axis, "; expected a positive size: drop empty axes");
    if (n > max_length)
      fail_invalid("neighborhood: shape is ", n, " on axis ", axis, "; expected at most ", max_length,
                   ": the axes multiply to s_kv");
    if (k < 1 || k % 2 == 0)
      fail_invalid("neighborhood: kernel is ", k, " on axis ", axis, "; expected an odd number: use ",
                   k < 1   ? 1
                   : k > n ? n | 1
                           : k + 1);
    if (d < 1)
      fail_invalid("neighborhood: dilation is ", d, " on axis ", axis, "; expected a positive number: use 1 for none");
    if (k > n / d) {
      fail_invalid("neighborhood: kernel ", k, " x dilation ", d, " exceeds shape ", n, " on axis ", axis,
                   "; expected kernel * dilation <= shape: use a smaller kernel or dilation");
    }
    if (cells > max_length / n)
      fail_invalid("neighborhood: shape holds more than 2^48 cells; expected s_kv = ", plane.s_kv, ": make it fit");
    cells *= n;
    const size_t place = axis + 3 - shape.size();
    leaf.args.ints[1 + place] = n;
    leaf.args.ints[4 + place] = k;
    leaf.args.ints[7 + place] = d;
  }
  if (cells != plane.s_kv) {
    fail_invalid("neighborhood: shape holds ", cells, " cells; expected s_kv = ", plane.s_kv,
                 ": the keys are the cells of the grid");
  }
  leaf.args.shift = plane.shift(in.top_left(3));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  if (shape.s_kv < 1) return Mask();
  // Factors of s_kv, so that the product is right whatever the length.
  const int64_t axes = example::pick(rng, 1, 3);
  std::vector<int64_t> sizes, kernel, dilation;
  int64_t rest = shape.s_kv;
  for (int64_t axis = 1; axis < axes; ++axis) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= rest && d <= 64; ++d) {
      if (rest % d == 0) divisors.push_back(d);
    }
    sizes.push_back(divisors[example::pick(rng, 0, static_cast<int64_t>(divisors.size()) - 1)]);
    rest /= sizes.back();
  }
  sizes.insert(sizes.begin() + example::pick(rng, 0, static_cast<int64_t>(sizes.size())), rest);
  for (const int64_t n : sizes) {
    dilation.push_back(
        example::chance(rng, 2) ? 1 : example::pick(rng, 1, std::max<int64_t>(std::min<int64_t>(n / 2, 4), 1)));
    kernel.push_back(2 * example::pick(rng, 0, std::min<int64_t>((n / dilation.back() - 1) / 2, 6)) + 1);
  }
  std::vector<MaskArgument> arguments{{"", sizes}, {"", kernel}, {"", dilation}};
  if (example::chance(rng, 4)) arguments[1].value = int64_t{1};
  if (example::chance(rng, 3)) arguments.pop_back();  // kernels that fit with a dilation fit without
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("neighborhood", arguments);
}

}  // namespace

KindRow neighborhood_kind() {
  return {.kind = {.op = Op::neighborhood,
                   .name = "neighborhood",
                   .arguments = {{"shape", ArgumentType::integers, true, "",
                                  "size of each axis of the grid, 1 to 3; their product is s_kv", true},
                                 {"kernel", ArgumentType::integers, true, "",
                                  "neighbours an axis, odd: one number, or one for each axis", true},
                                 {"dilation", ArgumentType::integers, false, "1",
                                  "distance between neighbours: one number, or one for each axis", true},
                                 align_argument()},
                   .keeps = "exactly `kernel` (odd) neighbours per axis of a 1-3-d grid flattened row-major, the "
                            "window shifted inward at the "
                            "edges; with a dilation, among the positions of the same residue",
                   .summary = "NATTEN's neighbourhood attention on a grid",
                   .example = "neighborhood([4, 4], 3)",
                   .random = random},
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Neighborhood>(),
          .device_arrays = false};
}

}  // namespace anymask
