#include "mask/kinds/documents.h"

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

void check(const LeafArguments& in) {
  for (size_t i = 0; i < 2; ++i) require_rank(in, i, {1, 2}, "[documents + 1], or [b, documents + 1]");
  if (in.given(1) && in.top_left(2)) {
    fail_invalid(
        "documents: align is top_left; with cu_kv rows have offsets of their own and no alignment applies: leave align "
        "out");
  }
}

void bind_on_device(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const bool by_row = in.given(1);
  const TensorView cu = plane_view(in, 0, plane), cu_kv = plane_view(in, by_row ? 1 : 0, plane);
  if (cu.shape[0] < 1) fail_invalid(where(in, 0), " is empty; expected offsets from 0 on: give at least [0]");
  if (cu_kv.shape[0] != cu.shape[0]) {
    fail_invalid(where(in, 1), " holds ", cu_kv.shape[0], " offsets and cu ", cu.shape[0],
                 "; expected the same number: one more than documents");
  }
  leaf.args.ints[0] = cu.shape[0] - 1;
  leaf.args.ints[1] = by_row ? 0 : plane.shift(in.top_left(2));
  leaf.sources[0] = source_of(cu, by_row ? plane.s_q : plane.s_kv, leaf);
  leaf.sources[1] = source_of(cu_kv, plane.s_kv, leaf);
  for (int slot = 0; slot < 2; ++slot) leaf.make_on_device(slot, cu.shape[0] * 8);
  leaf.last = {plane.s_kv, plane.s_kv};
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const bool by_row = in.given(1);
  if (on_device(in)) return bind_on_device(in, plane, leaf);
  std::vector<int64_t> cu = load_integers(plane_view(in, 0, plane));
  require_offsets(in, 0, cu, by_row ? plane.s_q : plane.s_kv, by_row ? "s_q" : "s_kv");
  leaf.args.ints[0] = static_cast<int64_t>(cu.size()) - 1;
  leaf.args.ints[1] = by_row ? 0 : plane.shift(in.top_left(2));
  if (by_row) {
    std::vector<int64_t> cu_kv = load_integers(plane_view(in, 1, plane));
    require_offsets(in, 1, cu_kv, plane.s_kv, "s_kv");
    if (cu_kv.size() != cu.size()) {
      fail_invalid(where(in, 1), " holds ", cu_kv.size(), " offsets and cu ", cu.size(),
                   "; expected the same number: one more than documents");
    }
    leaf.hold_values(1, std::move(cu_kv));
  }
  leaf.hold_values(0, std::move(cu));
  if (!by_row) leaf.args.data[1] = leaf.args.data[0];
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  const bool by_row = example::chance(rng, 3), batched = example::chance(rng, 3) && shape.batch > 0;
  const int64_t documents =
      (by_row ? shape.s_q | shape.s_kv : shape.s_kv) == 0 ? example::pick(rng, 0, 2) : example::pick(rng, 1, 6);
  const auto offsets = [&](int64_t last) {
    std::vector<int64_t> values;
    for (int64_t b = 0; b < (batched ? shape.batch : 1); ++b) {
      const std::vector<int64_t> row = example::offsets(rng, documents, last);
      values.insert(values.end(), row.begin(), row.end());
    }
    return example::integers(
        rng, batched ? std::vector<int64_t>{shape.batch, documents + 1} : std::vector<int64_t>{documents + 1}, values);
  };
  std::vector<MaskArgument> arguments{{"", offsets(by_row ? shape.s_q : shape.s_kv)}};
  if (by_row) {
    arguments.push_back({"", offsets(shape.s_kv)});
  } else {
    example::maybe_top_left(rng, arguments);
  }
  return Mask::leaf("documents", arguments);
}

}  // namespace

KindRow documents_kind() {
  return {.kind = {.op = Op::documents,
                   .name = "documents",
                   .arguments = {{"cu", ArgumentType::integers, true, "",
                                  "offsets of the documents, from 0 to s_kv over positions (or to s_q over rows, with "
                                  "cu_kv); [n + 1] or [b, n + 1]"},
                                 {"cu_kv", ArgumentType::integers, false, "",
                                  "offsets over keys, from 0 to s_kv, when cu counts rows"},
                                 align_argument()},
                   .keeps = "the same document: one offsets array over positions, or one over rows q and one over keys",
                   .summary = "documents packed into one sequence, blind to each other",
                   .example = "documents([0, 5, 9, 16])",
                   .random = random},
          .axes = ArrayAxes::rows,
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Documents>()};
}

}  // namespace anymask
