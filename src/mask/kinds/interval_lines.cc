#include "mask/kinds/interval_lines.h"

#include <algorithm>
#include <bit>

#include "mask/kinds/interval_table.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

// Sorts a line's intervals, joins those that meet, drops empty ones.
void normalise(std::vector<Interval>& line) {
  std::erase_if(line, [](const Interval& i) { return i.begin >= i.end; });
  std::sort(line.begin(), line.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  size_t used = 0;
  for (const Interval& i : line) {
    if (used > 0 && i.begin <= line[used - 1].end) {
      line[used - 1].end = std::max(line[used - 1].end, i.end);
    } else {
      line[used++] = i;
    }
  }
  line.resize(used);
}

std::vector<IntervalBounds> build_bounds(const LeafArgs& table, uint64_t leaves) {
  const int64_t n = table.ints[0], lines = table.ints[1];
  std::vector<IntervalBounds> heaps(static_cast<size_t>(n) * 2 * leaves, IntervalTable::nothing());
  for (int64_t i = 0; i < n; ++i) {
    IntervalBounds* heap = heaps.data() + i * 2 * static_cast<int64_t>(leaves);
    for (int64_t block = 0; block * IntervalTable::block < lines; ++block) {
      heap[static_cast<int64_t>(leaves) + block] =
          IntervalTable::scan(table, i, block * IntervalTable::block, min_of((block + 1) * IntervalTable::block, lines),
                              IntervalTable::nothing());
    }
    for (uint64_t at = leaves; at-- > 1;) heap[at] = IntervalTable::join(heap[2 * at], heap[2 * at + 1]);
  }
  return heaps;
}

}  // namespace

void check_interval_lines(const LeafArguments& in) {
  for (size_t i = 0; i < 2; ++i) {
    require_rank(in, i, {1, 2, 4}, "[lines], [lines, n], or [b or 1, heads or 1, lines, n]");
    const DType type = in.array(i)->view.dtype;
    if (!is_integer(type))
      fail_invalid(where(in, i), " has type ", name_of(type), "; expected int32 or int64: convert it");
  }
  const TensorView &begin = in.array(0)->view, &end = in.array(1)->view;
  if (begin.rank != end.rank || begin.shape[begin.rank - 1] != end.shape[end.rank - 1]) {
    fail_invalid(where(in, 1), " has shape ", end, " and begin ", begin,
                 "; expected the same shape: one end for each begin");
  }
}

void bind_interval_lines(const LeafArguments& in, const PlaneContext& plane, int64_t lines, const char* lines_name,
                         int64_t extent, BoundLeaf& leaf) {
  TensorView view[2];
  for (size_t i = 0; i < 2; ++i) {
    view[i] = plane_view(in, i, plane);
    if (view[i].shape[0] != lines && view[i].shape[0] != 1) {
      fail_invalid(where(in, i), " has shape ", in.array(i)->view, "; expected ", lines_name, " = ", lines,
                   lines == 1 ? "" : " (or 1)", " lines: give one for each");
    }
    if (view[i].rank == 1) {
      view[i].rank = 2;
      view[i].shape[1] = 1;
      view[i].stride[1] = 0;
    }
  }
  if (view[0].shape[0] != view[1].shape[0]) {
    fail_invalid(where(in, 1), " has ", view[1].shape[0], " lines and begin ", view[0].shape[0],
                 "; expected as many: one end for each begin");
  }
  const int64_t given = view[0].shape[0], n = view[0].shape[1];
  const uint64_t leaves = std::bit_ceil(static_cast<uint64_t>(given / IntervalTable::block + 1));
  leaf.args.ints[1] = given;
  leaf.args.ints[2] = static_cast<int64_t>(leaves);
  if (on_device(in)) {
    leaf.args.ints[0] = n;
    for (int i = 0; i < 2; ++i) {
      leaf.sources[i] = source_of(view[i], extent, leaf);
      leaf.make_on_device(i, given * n * 8);
    }
    leaf.make_on_device(2, n * 2 * static_cast<int64_t>(leaves * sizeof(IntervalBounds)));
    return;
  }
  std::vector<Interval> line;
  std::vector<int64_t> begins, ends, counts;
  int64_t widest = 0;
  for (int64_t l = 0; l < given; ++l) {
    line.clear();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t begin = load_integer(view[0], l * view[0].stride[0] + i * view[0].stride[1]);
      const int64_t end = load_integer(view[1], l * view[1].stride[0] + i * view[1].stride[1]);
      if (begin > end) {
        fail_invalid(where(in, 0), " is ", begin, " and end ", end, " at [", l, ", ", i,
                     "]; expected begin <= end: swap them, or make them equal for none");
      }
      line.push_back({clamp_to(begin, 0, extent), clamp_to(end, 0, extent)});
    }
    normalise(line);
    counts.push_back(static_cast<int64_t>(line.size()));
    widest = max_of(widest, counts.back());
    for (const Interval& i : line) {
      begins.push_back(i.begin);
      ends.push_back(i.end);
    }
  }
  // As wide as the line that needs most, the others ending in void intervals.
  std::vector<int64_t> wide_begins(static_cast<size_t>(given * widest), extent),
      wide_ends(static_cast<size_t>(given * widest), 0);
  for (int64_t l = 0, at = 0; l < given; ++l) {
    for (int64_t i = 0; i < counts[l]; ++i, ++at) {
      wide_begins[l * widest + i] = begins[at];
      wide_ends[l * widest + i] = ends[at];
    }
  }
  leaf.args.ints[0] = widest;
  leaf.hold_values(0, std::move(wide_begins));
  leaf.hold_values(1, std::move(wide_ends));
  leaf.hold(2, build_bounds(leaf.args, leaves));
}

Mask random_interval_lines(const char* kind, std::mt19937_64& rng, const ExampleShape& shape, int64_t lines,
                           int64_t extent) {
  std::vector<int64_t> axes;
  int64_t planes = 1, n = 1;
  const int64_t given = example::rows_or_one(rng, lines);
  if (example::chance(rng, 4)) {
    axes = {given};
  } else {
    planes = example::plane_axes(rng, shape, axes);
    n = example::pick(rng, 0, 4);
    axes.push_back(given);
    axes.push_back(n);
  }
  const int64_t form = example::pick(rng, 0, 2);
  std::vector<int64_t> begins, ends;
  for (int64_t i = 0; i < planes * given * n; ++i) {
    int64_t a = example::pick(rng, -2, extent + 2),
            b = form == 0 ? a + example::pick(rng, 0, 3) : example::pick(rng, -2, extent + 2);
    if (form == 2 && !begins.empty() && !example::chance(rng, 6))
      a = begins.back(), b = ends.back();  // long stretches of equal lines
    begins.push_back(std::min(a, b));
    ends.push_back(std::max(a, b));
  }
  return Mask::leaf(kind, std::vector<MaskArgument>{{"", example::integers(rng, axes, begins)},
                                                    {"", example::integers(rng, axes, ends)}});
}

}  // namespace anymask
