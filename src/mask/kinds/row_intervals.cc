#include "mask/kinds/row_intervals.h"

#include "mask/kinds/interval_lines.h"

namespace anymask {

namespace {

// Rows of any intervals: no band.
LeafOps any_ops() {
  LeafOps ops = leaf_ops<RowIntervals>();
  ops.interval = nullptr;
  ops.intervals = nullptr;
  return ops;
}

}  // namespace

KindRow row_intervals_kind() {
  return {.kind = {.op = Op::row_intervals,
                   .name = "row_intervals",
                   .arguments = {{"begin", ArgumentType::array, true, "",
                                  "first key of each interval of each row, [s_q or 1], [s_q or 1, n] or with [b or 1, "
                                  "heads or 1] before it"},
                                 {"end", ArgumentType::array, true, "",
                                  "end of each, the same shape; beyond the keys it is clipped"}},
                   .keeps = "begin[q, i] <= kv < end[q, i] for some i",
                   .summary = "each row lists the intervals of keys it sees",
                   .example = "row_intervals([0, 0, 0, 2, 2, 2, 5, 5, 5, 8, 8, 8, 8, 3, 3, 3], [1, 2, 3, 4, 5, 6, 7, "
                              "8, 9, 10, 11, 12, 13, 14, 15, 16])",
                   .random =
                       [](std::mt19937_64& rng, const ExampleShape& shape) {
                         return random_interval_lines("row_intervals", rng, shape, shape.s_q, shape.s_kv);
                       }},
          .axes = ArrayAxes::planes,
          .check = check_interval_lines,
          .bind = [](const LeafArguments& in, const PlaneContext& plane,
                     BoundLeaf& leaf) { bind_interval_lines(in, plane, plane.s_q, "s_q", plane.s_kv, leaf); },
          .ops = any_ops()};
}

}  // namespace anymask
