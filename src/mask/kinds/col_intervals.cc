#include "mask/kinds/col_intervals.h"

#include "mask/kinds/interval_lines.h"

namespace anymask {

KindRow col_intervals_kind() {
  return {.kind = {.op = Op::col_intervals,
                   .name = "col_intervals",
                   .arguments = {{"begin", ArgumentType::array, true, "",
                                  "first row of each interval of each key, [s_kv or 1], [s_kv or 1, n] or with [b or "
                                  "1, heads or 1] before it"},
                                 {"end", ArgumentType::array, true, "",
                                  "end of each, the same shape; beyond the rows it is clipped"}},
                   .keeps = "begin[kv, i] <= q < end[kv, i] for some i",
                   .summary = "each key lists the intervals of rows that see it (~col_intervals is FlashMask's form)",
                   .example = "col_intervals([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [16, 4, 4, 8, 8, "
                              "8, 16, 12, 12, 16, 16, 16, 16, 16, 16, 16])",
                   .random =
                       [](std::mt19937_64& rng, const ExampleShape& shape) {
                         return random_interval_lines("col_intervals", rng, shape, shape.s_kv, shape.s_q);
                       }},
          .axes = ArrayAxes::planes,
          .check = check_interval_lines,
          .bind = [](const LeafArguments& in, const PlaneContext& plane,
                     BoundLeaf& leaf) { bind_interval_lines(in, plane, plane.s_kv, "s_kv", plane.s_q, leaf); },
          .ops = leaf_ops<ColIntervals>()};
}

}  // namespace anymask
