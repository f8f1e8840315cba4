// What is selected on the device before the plan's leaves are evaluated: every topk leaf whose bias lies there.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "cuda/plan/selected_plane.h"
#include "cuda/plan/upload_steps.h"
#include "cuda/topk_params.h"
#include "mask/digest.h"

namespace anymask {
namespace {

struct Pending {
  const BoundLeaf* leaf;
  int32_t level;
  int32_t plane = -1;  // that it writes the tiles of, or whose keys are gathered
  Operand within{};    // what that plane keeps of it; empty: all
  bool band = true;    // that is

  std::pair<int32_t, uint8_t> order() const { return {level, leaf->args.type[0]}; }
};

bool same_rows(const Operand& operand) {
  return std::all_of(operand.begin(), operand.end(), [](const OperandStep& step) {
    return step.leaf == nullptr || (step.leaf->ops->same_rows != nullptr && step.leaf->ops->same_rows(step.leaf->args));
  });
}

Digest digest_of(const Operand& operand) {
  Hasher hasher;
  for (const OperandStep& step : operand) {
    hasher.add(static_cast<uint64_t>(step.step.step));
    if (step.leaf != nullptr) hasher.add(step.leaf->digest);
  }
  return hasher.finish();
}

}  // namespace

// The selections of an upload: their rows, and what of each row counts, evaluated once where it is the same.
class PlanUpload::Selector {
 public:
  Selector(PlanUpload& upload, Steps& all) : upload_(upload), all_(all) {}

  void add(const Pending& p) {
    const LeafArgs& args = p.leaf->args;
    const auto dtype = static_cast<DType>(args.type[0]);
    std::vector<Selection>& selections = upload_.selections;
    if (selections.empty() || selections.back().dtype != dtype || selections.back().level != p.level)
      selections.push_back({dtype, p.level, static_cast<int32_t>(planes_.size()), 0, 0,
                            static_cast<int32_t>(candidates_.size()), 0, 0, 0});
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
    if (upload_.emits_tiles && p.plane >= 0) {  // its tiles are all that anybody reads
      plane.first_m_block = upload_.planes[static_cast<size_t>(p.plane)].first_row;
    } else {
      plane.rows = reinterpret_cast<TopkRow*>(const_cast<void*>(all_.leaves[all_.known.at(p.leaf)].args.data[1]));
      in_planes_.push_back(planes_.size() * sizeof(TopkPlane) + offsetof(TopkPlane, rows));
    }
    if (p.leaf->among != nullptr) {
      const PlaneMask& among = *p.leaf->among;
      plane.among = keys(among.digest(), among.same_rows() ? 1 : rows, among.is_band(), offsetof(TopkPlane, among),
                         [&] { return upload_.add_plane(all_, among); });
    }
    if (!p.within.empty()) {
      plane.within = keys(digest_of(p.within), same_rows(p.within) ? 1 : args.s_q, p.band, offsetof(TopkPlane, within),
                          [&] { return upload_.add_steps(all_, p.within, args); });
    }
    to.rows += static_cast<int32_t>(rows);
    to.planes += 1;
    to.keys = std::max(to.keys, args.s_kv);
    to.candidates = static_cast<int32_t>(candidates_.size()) - to.first_candidates;
    for (const TopkCandidates& mask : std::span(candidates_).subspan(static_cast<size_t>(to.first_candidates)))
      to.candidate_threads =
          std::max(to.candidate_threads, mask.plane.band != 0 ? mask.plane.s_q : mask.plane.s_q * to.keys / 256);
    planes_.push_back(plane);
  }

  void finish() {
    upload_.selections_ = upload_.append(planes_.data(), planes_.size() * sizeof(TopkPlane));
    upload_.candidates_ = upload_.append(candidates_.data(), candidates_.size() * sizeof(TopkCandidates));
    for (const size_t at : in_planes_) upload_.made_addresses_.push_back(upload_.selections_ + at);
    for (const size_t at : in_candidates_) upload_.made_addresses_.push_back(upload_.candidates_ + at);
  }

 private:
  // What a mask keeps of `rows` rows, for the plane that is added: its member at `offset`. A place in the upload's
  // memory, which becomes an address.
  template <class Add>
  TopkKeys keys(const Digest& digest, int64_t rows, bool band, size_t offset, Add&& add_steps) {
    const auto [found, inserted] = known_.try_emplace({digest, rows});
    if (inserted) {
      BuildPlane mask = add_steps();
      mask.s_q = rows;
      mask.band = band ? 1 : 0;
      found->second = upload_.make(static_cast<size_t>(rows) *
                                   (band ? sizeof(TopkLimits) : 4 * static_cast<size_t>(topk_line_words(mask.s_kv))));
      TopkCandidates candidates{mask, nullptr, nullptr};
      if (band) candidates.limits = reinterpret_cast<TopkLimits*>(found->second);
      if (!band) candidates.words = reinterpret_cast<uint32_t*>(found->second);
      in_candidates_.push_back(candidates_.size() * sizeof(TopkCandidates) +
                               (band ? offsetof(TopkCandidates, limits) : offsetof(TopkCandidates, words)));
      candidates_.push_back(candidates);
    }
    TopkKeys out{nullptr, nullptr, rows > 1 ? 1 : 0};
    if (band) out.limits = reinterpret_cast<const TopkLimits*>(found->second);
    if (!band) out.words = reinterpret_cast<const uint32_t*>(found->second);
    in_planes_.push_back(planes_.size() * sizeof(TopkPlane) + offset +
                         (band ? offsetof(TopkKeys, limits) : offsetof(TopkKeys, words)));
    return out;
  }

  PlanUpload& upload_;
  Steps& all_;
  std::vector<TopkPlane> planes_;
  std::vector<TopkCandidates> candidates_;
  std::vector<size_t> in_planes_, in_candidates_;  // where places stand that become addresses
  std::map<std::pair<Digest, int64_t>, size_t> known_;
};

BuildPlane PlanUpload::add_steps(Steps& to, const Operand& operand, const LeafArgs& lengths) {
  BuildPlane out{};
  out.s_q = lengths.s_q;
  out.s_kv = lengths.s_kv;
  out.first_step = static_cast<int32_t>(to.steps.size());
  out.num_steps = static_cast<int32_t>(operand.size());
  for (OperandStep step : operand) {
    if (step.leaf != nullptr) step.step.at = to.known.at(step.leaf);
    to.steps.push_back(step.step);
  }
  return out;
}

void PlanUpload::add_selections(Steps& all, const BoundMask& mask) {
  std::vector<Pending> pending;
  if (gathers) {
    for (size_t p = 0; p < mask.planes.size(); ++p) {
      const SelectedPlane plane = *selected_plane(mask.planes[p]);
      pending.push_back({plane.topk, 0, static_cast<int32_t>(p), conjunction_of(plane.rest)});
    }
  } else {
    for (const BoundLeaf* leaf : all.bound)
      if (is_selected(*leaf)) pending.push_back({leaf, level_of(*leaf)});
    std::stable_sort(pending.begin(), pending.end(),
                     [&](const Pending& a, const Pending& b) { return a.order() < b.order(); });
  }
  if (pending.empty()) return;

  // Bit tiles come from the selection where each plane is one, row by row, and all are in the last launch.
  std::vector<SelectedPlane> selected;
  emits_tiles = !gathers && header.transposed == 0;
  for (size_t p = 0; p < mask.planes.size() && emits_tiles; ++p) {
    const std::optional<SelectedPlane> plane = selected_plane(mask.planes[p]);
    emits_tiles = plane && Pending{plane->topk, level_of(*plane->topk)}.order() == pending.back().order() &&
                  plane->topk->args.stride[1][0] != 0 && plane->topk->args.s_q > 0;
    if (emits_tiles) selected.push_back(*plane);
  }
  for (size_t p = 0; p < mask.planes.size() && emits_tiles; ++p) {
    const SelectedPlane& plane = selected[p];
    auto at = std::find_if(pending.begin(), pending.end(), [&](const Pending& x) { return x.leaf == plane.topk; });
    if (at->plane >= 0) at = pending.insert(pending.end(), {plane.topk, at->level});  // once more for this plane
    at->plane = static_cast<int32_t>(p);
    at->within = conjunction_of(plane.rest);
    at->band = plane.rest_is_bands;
    // Classified as if each pair inside the bands were looked at: every row of tiles has one stretch of mixed tiles.
    std::vector<Operand> looked_at{{{{.step = Step::leaf}, plane.topk}}};
    for (const BoundLeaf* leaf : plane.bounds) looked_at.push_back({{{.step = Step::leaf}, leaf}});
    const BuildPlane steps = add_steps(all, conjunction_of(looked_at), plane.topk->args);
    planes[p].first_step = steps.first_step;
    planes[p].num_steps = steps.num_steps;
  }
  Selector selector(*this, all);
  for (const Pending& p : pending) selector.add(p);
  selector.finish();
}

}  // namespace anymask
