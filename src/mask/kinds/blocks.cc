#include "mask/kinds/blocks.h"

#include "mask/kind.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  require_rank(in, 0, {2, 4}, "[ceil(s_q / tile_q), ceil(s_kv / tile_kv)], or 4-d with [b or 1, heads or 1] before it");
  if (is_floating(in.array(0)->view.dtype)) {
    fail_invalid(where(in, 0), " has type ", name_of(in.array(0)->view.dtype),
                 "; expected bool, uint8, int32 or int64: convert it");
  }
  require_positive(in, 1);
  require_positive(in, 2);
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const int64_t tile_q = min_of(in.integer(1), max_length), tile_kv = min_of(in.integer(2), max_length);
  const int64_t rows = (plane.s_q + tile_q - 1) / tile_q, cols = (plane.s_kv + tile_kv - 1) / tile_kv;
  const TensorView map = plane_view(in, 0, plane);
  if (map.shape[0] != rows || map.shape[1] != cols) {
    fail_invalid(where(in, 0), " has shape ", in.array(0)->view,
                 "; expected [ceil(s_q / tile_q), ceil(s_kv / tile_kv)] = [", rows, ", ", cols,
                 "] for s_q = ", plane.s_q, ", s_kv = ", plane.s_kv, ", tiles of ", tile_q, " x ", tile_kv,
                 ": one entry a block");
  }
  const int64_t words = (cols + 63) / 64;
  leaf.args.ints[0] = tile_q;
  leaf.args.ints[1] = tile_kv;
  leaf.args.ints[2] = words;
  if (on_device(in)) {
    leaf.sources[0] = source_of(map, 0, leaf);
    leaf.make_on_device(0, rows * words * 8);
    return;
  }
  std::vector<uint64_t> bits(static_cast<size_t>(rows * words));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      if (load_integer(map, i * map.stride[0] + j * map.stride[1]) != 0)
        bits[i * words + j / 64] |= uint64_t{1} << (j % 64);
    }
  }
  leaf.hasher.add_words(bits.data(), rows * words);
  leaf.hold(0, std::move(bits));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  const int64_t tile_q = example::pick(rng, 1, 20), tile_kv = example::pick(rng, 1, 20);
  std::vector<int64_t> axes;
  const int64_t planes = example::plane_axes(rng, shape, axes);
  const int64_t rows = (shape.s_q + tile_q - 1) / tile_q, cols = (shape.s_kv + tile_kv - 1) / tile_kv,
                one_in = example::pick(rng, 2, 4);
  axes.push_back(rows);
  axes.push_back(cols);
  std::vector<int64_t> map;
  for (int64_t i = 0; i < planes * rows * cols; ++i) map.push_back(example::chance(rng, one_in) ? 1 : 0);
  const std::vector<uint8_t> narrow(map.begin(), map.end());
  const Array array = example::chance(rng, 2)
                          ? example::integers(rng, axes, map)
                          : example::bytes(rng, example::chance(rng, 2) ? DType::u8 : DType::boolean, axes, narrow);
  return Mask::leaf("blocks", std::vector<MaskArgument>{{"", array}, {"", tile_q}, {"", tile_kv}});
}

}  // namespace

KindRow blocks_kind() {
  return {.kind = {.op = Op::blocks,
                   .name = "blocks",
                   .arguments = {{"map", ArgumentType::array, true, "",
                                  "[ceil(s_q / tile_q), ceil(s_kv / tile_kv)] bool, uint8 or integer, or with [b or 1, "
                                  "heads or 1] before it"},
                                 {"tile_q", ArgumentType::integer, true, "", "rows a block"},
                                 {"tile_kv", ArgumentType::integer, true, "", "keys a block"}},
                   .keeps = "map[q / tile_q, kv / tile_kv]",
                   .summary = "block sparsity: one entry of a map for each block",
                   .example = "blocks(@map, 4, 4)",
                   .random = random},
          .axes = ArrayAxes::planes,
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Blocks>()};
}

}  // namespace anymask
