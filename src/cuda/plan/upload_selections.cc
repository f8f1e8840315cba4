// What is selected on the device before the plan's leaves are evaluated: every topk leaf whose bias lies there.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/error.h"
#include "cuda/plan/upload_steps.h"
#include "cuda/topk_params.h"

namespace anymask {
namespace {

bool is_selected(const BoundLeaf& leaf) { return leaf.args.op == Op::topk && leaf.unread && leaf.held_bytes[1] > 0; }

// The leaf among whose candidates no topk leaf stands has level 0.
int32_t level_of(const BoundLeaf& leaf) {
  int32_t level = 0;
  if (leaf.among == nullptr) return level;
  for (const auto& other : leaf.among->code().leaves)
    if (is_selected(*other)) level = std::max(level, 1 + level_of(*other));
  return level;
}

// Whether a plane is the conjunction of its leaves.
bool joined(const PlaneMask& plane) {
  const auto& steps = plane.code().steps;
  return std::all_of(steps.begin(), steps.end(), [](const PlaneStep& step) {
    return step.step == Step::leaf || step.step == Step::op_and || step.step == Step::skip_if_empty;
  });
}

bool is_candidate(const BoundLeaf& topk, const std::shared_ptr<const BoundLeaf>& leaf) {
  if (topk.among == nullptr) return false;
  const auto& leaves = topk.among->code().leaves;
  return std::find(leaves.begin(), leaves.end(), leaf) != leaves.end();
}

// The one topk leaf of a plane that is it & others: those go to `rest`, but for its candidates where these are left
// out, and are bands. Null: another plane.
const BoundLeaf* topk_of(const PlaneMask& plane, bool with_candidates, std::vector<const BoundLeaf*>& rest) {
  if (!joined(plane)) return nullptr;
  const BoundLeaf* found = nullptr;
  for (const auto& leaf : plane.code().leaves) {
    if (!is_selected(*leaf)) continue;
    if (found != nullptr) return nullptr;
    found = leaf.get();
  }
  if (found == nullptr) return nullptr;
  for (const auto& leaf : plane.code().leaves) {
    if (leaf.get() == found || (!with_candidates && is_candidate(*found, leaf))) continue;
    if (leaf->ops->interval == nullptr) return nullptr;
    rest.push_back(leaf.get());
  }
  return found;
}

// Whether the candidates are the conjunction of these leaves and no others.
bool same_as_candidates(const BoundLeaf& topk, const std::vector<const BoundLeaf*>& rest) {
  if (topk.among == nullptr) return rest.empty();
  size_t found = 0;
  for (const PlaneStep& step : topk.among->code().steps) {
    if (step.step == Step::op_and || step.step == Step::skip_if_empty) continue;
    if (step.step != Step::leaf) return false;
    found += std::count(rest.begin(), rest.end(), topk.among->code().leaves[step.at].get());
  }
  return found == rest.size();
}

}  // namespace

const BoundLeaf* shared_topk_of(const PlaneMask& plane, std::vector<const BoundLeaf*>& rest) {
  // What is kept is a candidate.
  const BoundLeaf* const found = topk_of(plane, false, rest);
  if (found == nullptr || found->args.stride[1][0] != 0 || level_of(*found) != 0) return nullptr;
  return found->among == nullptr || joined(*found->among) ? found : nullptr;
}

void PlanUpload::add_selections(Steps& all, const BoundMask& mask) {
  struct Pending {
    const BoundLeaf* leaf;
    int32_t level;
    int32_t plane = -1;  // that it writes the tiles of
    std::vector<const BoundLeaf*> within{};
  };
  std::vector<Pending> pending;
  const auto order = [](const Pending& p) { return std::pair{p.level, p.leaf->args.type[0]}; };
  if (gathers) {
    for (size_t p = 0; p < mask.planes.size(); ++p) {
      std::vector<const BoundLeaf*> rest;
      const BoundLeaf* const topk = shared_topk_of(mask.planes[p], rest);
      pending.push_back({topk, 0, static_cast<int32_t>(p), std::move(rest)});
    }
  } else {
    for (const BoundLeaf* leaf : all.bound)
      if (is_selected(*leaf)) pending.push_back({leaf, level_of(*leaf)});
    std::stable_sort(pending.begin(), pending.end(),
                     [&](const Pending& a, const Pending& b) { return order(a) < order(b); });
  }
  if (pending.empty()) return;

  // Bit tiles come from the selection where each plane has one of its own, row by row, and all are in the last launch.
  emits_tiles = !gathers && header.transposed == 0 && header.fold.heads() == 1;
  for (size_t p = 0; p < mask.planes.size() && emits_tiles; ++p) {
    std::vector<const BoundLeaf*> rest;
    const BoundLeaf* const topk = topk_of(mask.planes[p], true, rest);
    const auto at =
        std::find_if(pending.begin(), pending.end(), [topk](const Pending& other) { return other.leaf == topk; });
    emits_tiles = at != pending.end() && at->plane < 0 && order(*at) == order(pending.back()) &&
                  topk->args.stride[1][0] != 0 && topk->args.s_q > 0;
    if (!emits_tiles) break;
    at->plane = static_cast<int32_t>(p);
    if (!same_as_candidates(*topk, rest)) at->within = std::move(rest);
  }

  std::vector<TopkPlane> selected;
  std::vector<TopkCandidates> candidates;
  std::vector<std::pair<size_t, bool>> made;  // addresses in the arrays: of `candidates`, or of `selected`
  const auto limits = [&](BuildPlane plane) {
    const size_t at = make(static_cast<size_t>(plane.s_q) * sizeof(TopkLimits));
    made.emplace_back(candidates.size() * sizeof(TopkCandidates) + offsetof(TopkCandidates, limits), true);
    candidates.push_back({plane, reinterpret_cast<TopkLimits*>(at), nullptr});
    return at;
  };
  const auto candidates_of = [&](const PlaneMask& among, int64_t rows) {
    BuildPlane plane = add_plane(all, among);
    plane.s_q = rows;  // 1 where all are alike
    return plane;
  };
  for (const Pending& p : pending) {
    const LeafArgs& args = p.leaf->args;
    const auto dtype = static_cast<DType>(args.type[0]);
    if (selections.empty() || selections.back().dtype != dtype || selections.back().level != p.level) {
      selections.push_back({dtype, p.level, static_cast<int32_t>(selected.size()), 0, 0,
                            static_cast<int32_t>(candidates.size()), 0, 0, 0});
    }
    Selection& to = selections.back();
    const int64_t rows = args.stride[1][0] == 0 ? 1 : args.s_q;
    if (to.rows + rows > std::numeric_limits<int32_t>::max() / 2)
      fail_unsupported("attention: topk selects in more than 2^30 rows; call it for parts of the batch");
    TopkPlane plane{};
    plane.values = args.data[0];
    plane.stride_q = args.stride[0][0];
    plane.stride_kv = args.stride[0][1];
    plane.s_kv = static_cast<int32_t>(args.s_kv);
    plane.window = static_cast<int32_t>(std::min(args.ints[1], args.s_kv));
    plane.first_row = to.rows;
    plane.num_rows = static_cast<int32_t>(rows);
    const auto field = [&](size_t offset) { made.emplace_back(selected.size() * sizeof(TopkPlane) + offset, false); };
    plane.rows = reinterpret_cast<TopkRow*>(const_cast<void*>(all.leaves[all.known.at(p.leaf)].args.data[1]));
    field(offsetof(TopkPlane, rows));
    if (p.leaf->among != nullptr && p.leaf->among->is_band()) {
      plane.among = reinterpret_cast<const TopkLimits*>(limits(candidates_of(*p.leaf->among, rows)));
      field(offsetof(TopkPlane, among));
      to.candidate_rows = std::max(to.candidate_rows, rows);
    } else if (p.leaf->among != nullptr) {
      const size_t at = make(static_cast<size_t>(rows * ((args.s_kv + 31) / 32)) * sizeof(uint32_t));
      plane.among_words = reinterpret_cast<const uint32_t*>(at);
      field(offsetof(TopkPlane, among_words));
      made.emplace_back(candidates.size() * sizeof(TopkCandidates) + offsetof(TopkCandidates, words), true);
      candidates.push_back({candidates_of(*p.leaf->among, rows), nullptr, reinterpret_cast<uint32_t*>(at)});
      to.candidate_rows = std::max(to.candidate_rows, rows);
    }
    if (emits_tiles && p.plane >= 0) plane.first_m_block = planes[static_cast<size_t>(p.plane)].first_row;
    if ((emits_tiles || gathers) && !p.within.empty()) {
      BuildPlane rest{};
      rest.s_q = args.s_q;
      rest.s_kv = args.s_kv;
      rest.band = 1;
      rest.first_step = static_cast<int32_t>(all.steps.size());
      for (const BoundLeaf* leaf : p.within) {
        all.steps.push_back({.step = Step::leaf, .at = all.known.at(leaf)});
        if (leaf != p.within.front()) all.steps.push_back({.step = Step::op_and});
      }
      rest.num_steps = static_cast<int32_t>(all.steps.size()) - rest.first_step;
      plane.within = reinterpret_cast<const TopkLimits*>(limits(rest));
      field(offsetof(TopkPlane, within));
      to.candidate_rows = std::max(to.candidate_rows, args.s_q);
    }
    to.rows += static_cast<int32_t>(rows);
    to.planes += 1;
    to.keys = std::max(to.keys, args.s_kv);
    to.candidates = static_cast<int32_t>(candidates.size()) - to.first_candidates;
    selected.push_back(plane);
  }
  selections_ = append(selected.data(), selected.size() * sizeof(TopkPlane));
  candidates_ = append(candidates.data(), candidates.size() * sizeof(TopkCandidates));
  for (const auto& [at, of_candidates] : made)
    made_addresses_.push_back((of_candidates ? candidates_ : selections_) + at);
}

}  // namespace anymask
