#include "cuda/plan/gather_layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "cuda/gather_params.h"
#include "cuda/plan/selected_plane.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

// Rows of a block are a multiple of what tiles hold, and blocks are not so many that the host takes long over them.
constexpr int64_t row_step = 192, most_blocks = 64;

using Planes = std::vector<SelectedPlane>;  // of the mask; empty: some plane is none of them

Planes planes_of(const BoundMask& mask) {
  Planes planes;
  for (const PlaneMask& plane : mask.planes) {
    const auto& leaves = plane.code().leaves;
    if (std::none_of(leaves.begin(), leaves.end(), [](const auto& leaf) { return is_selected(*leaf); })) return {};
    std::optional<SelectedPlane> selected = selected_plane(plane);
    if (!selected) return {};
    planes.push_back(std::move(*selected));
  }
  return planes;
}

int64_t window_of(const SelectedPlane& plane) { return plane.topk->args.ints[1]; }

bool windows_differ(const BoundMask& mask, const Planes& planes) {
  for (size_t i = 0; i < mask.plane_of.size(); ++i) {
    const size_t first = i - i % static_cast<size_t>(mask.heads);
    const auto window = [&](size_t at) { return window_of(planes[static_cast<size_t>(mask.plane_of[at])]); };
    if (window(i) != window(first)) return true;
  }
  return false;
}

// Why not, whatever the keys are.
Support can_gather(const AttentionProblem& problem, const BoundMask& mask, const Planes& planes, bool by_rows) {
  const auto is_nothing = [](const SelectedPlane& plane) { return window_of(plane) == 0; };
  if (std::any_of(planes.begin(), planes.end(), is_nothing)) return {false, "a window is 0"};
  if (std::max(heads_apart(mask, problem), problem.h_q) > 65535 || problem.sequences.size() > (by_rows ? 1023 : 65535))
    return {false, by_rows ? "there are more than 65,535 heads or 1,023 sequences"
                           : "there are more than 65,535 heads or sequences"};
  if (!by_rows && windows_differ(mask, planes)) return {false, "heads have windows of different sizes"};
  const auto type = [](const SelectedPlane& plane) { return plane.topk->args.type[0]; };
  const auto other = [&](const SelectedPlane& plane) { return type(plane) != type(planes[0]); };
  if (by_rows && std::any_of(planes.begin(), planes.end(), other))
    return {false, "planes select by biases of different types"};
  if (problem.alibi.defined()) return {false, "ALiBi asks for the positions of keys"};
  if (problem.bias.defined() && problem.bias.shape[2] > 1)
    return {false, "the bias that is added has a row for each query"};
  return {};
}

Interval candidates_of(const SelectedPlane& plane, int64_t q) {
  const PlaneMask* const among = plane.topk->among.get();
  return among == nullptr ? Interval{0, plane.topk->args.s_kv} : among->interval(q);
}

// Places that a list of these rows may need: see gather_chosen in kernels/gather_keys.cuh.
int64_t width_of(const SelectedPlane& plane, int64_t first_row, int64_t rows) {
  const Interval first = candidates_of(plane, first_row), last = candidates_of(plane, first_row + rows - 1);
  const int64_t any = std::max<int64_t>(last.end - first.begin, 0);
  const int64_t all = std::max<int64_t>(first.end - last.begin, 0);
  return std::min(any, window_of(plane) + any - all);
}

// Of all planes of one shape.
std::vector<GatherBlock> blocks_of(const Planes& planes, int64_t s_q, int64_t s_kv) {
  const auto of_shape = [&](const SelectedPlane& plane) {
    return plane.topk->args.s_q == s_q && plane.topk->args.s_kv == s_kv;
  };
  int64_t window = 0;
  for (const SelectedPlane& plane : planes)
    if (of_shape(plane)) window = std::max(window, window_of(plane));
  // Twice as many rows would double the keys that one row brings to all, half as many the copies.
  const int64_t rows = (std::max(window / 2, s_q / most_blocks) / row_step + 1) * row_step;
  std::vector<GatherBlock> blocks;
  for (int64_t first = 0; first < s_q; first += rows) {
    GatherBlock block{first, std::min(rows, s_q - first), 1};
    for (const SelectedPlane& plane : planes)
      if (of_shape(plane)) block.width = std::max(block.width, width_of(plane, block.first, block.rows));
    blocks.push_back(block);
  }
  return blocks;
}

// Whether the candidates of all rows of a block begin at one key, and its list is short enough for gather_columns.
bool only_come(const Planes& planes, int64_t s_q, int64_t s_kv, const std::vector<GatherBlock>& blocks) {
  return std::all_of(planes.begin(), planes.end(), [&](const SelectedPlane& plane) {
    if (plane.topk->args.s_q != s_q || plane.topk->args.s_kv != s_kv) return true;
    return std::all_of(blocks.begin(), blocks.end(), [&](const GatherBlock& block) {
      return block.width <= most_columns &&
             candidates_of(plane, block.first).begin == candidates_of(plane, block.first + block.rows - 1).begin;
    });
  });
}

// Keys that rows of 128 queries would look at without gathering, in all rows of a plane.
double keys_of(const SelectedPlane& plane, int64_t first, int64_t rows) {
  const Interval a = candidates_of(plane, first), b = candidates_of(plane, first + rows - 1);
  return static_cast<double>(std::max<int64_t>(a.end - a.begin, 0) + std::max<int64_t>(b.end - b.begin, 0)) / 2 *
         static_cast<double>(rows) / 128;
}

}  // namespace

int64_t heads_apart(const BoundMask& mask, const AttentionProblem& problem) {
  return mask.heads == 1 ? 1 : groups_share_planes(mask, problem.group()) ? problem.h_kv : problem.h_q;
}

GatherLayout gather_layout(const AttentionProblem& problem, const BoundMask& mask) {
  GatherLayout layout;
  if (problem.max_s_q == 0) return layout;
  const Planes planes = planes_of(mask);
  if (planes.empty()) return layout;
  layout.by_rows = !std::all_of(planes.begin(), planes.end(), is_shared);
  if (layout.by_rows && !std::all_of(planes.begin(), planes.end(), is_banded)) return layout;
  layout.support = can_gather(problem, mask, planes, layout.by_rows);
  if (!layout.support.yes) return layout;

  // Per kv head, in what reading a key costs a row of 128 queries: a gathered key is read, written and read again.
  double all = 0, gathered = 0;
  const int64_t heads = std::max(heads_apart(mask, problem), problem.h_kv) / problem.h_kv;
  const auto group = static_cast<double>(problem.group());
  std::map<std::pair<int64_t, int64_t>, std::vector<GatherBlock>> known;
  layout.by_columns = layout.by_rows;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& sequence = problem.sequences[s];
    const SelectedPlane& plane = planes[static_cast<size_t>(mask.plane(static_cast<int64_t>(s), 0))];
    if (layout.by_rows) {
      const auto [found, inserted] = known.try_emplace({sequence.s_q, sequence.s_kv});
      if (inserted) {
        found->second = blocks_of(planes, sequence.s_q, sequence.s_kv);
        layout.by_columns &= only_come(planes, sequence.s_q, sequence.s_kv, found->second);
      }
      layout.blocks.push_back(found->second);
    } else {
      layout.blocks.push_back({{0, sequence.s_q, window_of(plane)}});
    }
    for (const GatherBlock& block : layout.blocks.back()) {
      all += layout.by_rows
                 ? group * keys_of(plane, block.first, block.rows)
                 : static_cast<double>(sequence.s_kv) * (1 + static_cast<double>(sequence.s_q) * group / 128);
      gathered += static_cast<double>(block.width) *
                  (3 * static_cast<double>(heads) + static_cast<double>(block.rows) * group / 128);
    }
  }
  if (gathered > all) layout.support = {false, "so few keys would be left out that copying costs more"};
  return layout;
}

}  // namespace anymask
