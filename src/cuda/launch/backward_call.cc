#include "cuda/launch/backward_call.h"

#include "cuda/launch/carve.h"
#include "cuda/launch/params.h"
#include "cuda/launch/sm80_attention_bwd.h"

namespace anymask {

BackwardCall::BackwardCall(const AttentionProblem& problem, const BoundMask& mask)
    : problem_(problem),
      device_(cuda_device(problem.device.index)),
      config_(choose_sm80_attention_bwd(problem, device_, groups_share_planes(mask, problem.group()))),
      refusal_(why_no_band(mask)) {
  if (config_.small_head_dim > 0 && refusal_.empty()) {
    dkdv_ = source(mask, config_.small_plan());
    small_ = !dkdv_.plan;
    if (small_) return;
  }
  dkdv_ = source(mask, config_.dkdv_plan());
  if (config_.two_passes) dq_ = source(mask, config_.dq_plan());
}

BackwardCall::Source BackwardCall::source(const BoundMask& mask, const PlanShape& shape) const {
  Source to;
  if (refusal_.empty()) to.band = std::make_unique<BandSource>(mask, problem_, shape);
  if (!to.band || !to.band->refusal().empty())
    to.plan = std::make_unique<CudaPlanSource>(mask, problem_, shape, device_);
  return to;
}

void BackwardCall::Source::enqueue(AttentionParams& params, void* memory, cudaStream_t stream) const {
  if (plan) {
    params.plan = plan->enqueue(memory, stream);
  } else {
    params.band = band->enqueue(memory, stream);
  }
}

BackwardCall::Places BackwardCall::places(void* workspace) const {
  Carve carve(workspace);
  Places at{};
  at.sequences = carve.take<CudaSequence>(small_ ? 0 : sequence_count(problem_));
  at.dkdv = carve.take<char>(dkdv_.bytes());
  at.dq = carve.take<char>(dq_.bytes());
  at.scratch = carve.take<char>(small_ ? 0 : sm80_attention_bwd_scratch_bytes(problem_, config_));
  at.bytes = carve.bytes();
  return at;
}

void BackwardCall::enqueue(void* workspace, cudaStream_t stream) const {
  const Places at = places(workspace);
  Sm80BwdCall call{make_params(problem_), {}, dkdv_.max_items(), dq_.max_items()};
  if (small_) {
    dkdv_.enqueue(call.dkdv, at.dkdv, stream);
    return launch_sm80_attention_bwd_small(call.dkdv, config_, device_, stream);
  }
  // A band holds its sequences.
  if (dkdv_.plan || dq_.plan) call.dkdv.sequences = enqueue_sequences(problem_, at.sequences, stream);
  call.dq = call.dkdv;
  dkdv_.enqueue(call.dkdv, at.dkdv, stream);
  if (config_.two_passes) dq_.enqueue(call.dq, at.dq, stream);
  launch_sm80_attention_bwd(call, at.scratch, config_, device_, stream);
}

std::vector<Fact> BackwardCall::facts() const {
  std::vector<Fact> facts = {{"tile", small_ ? cat(config_.small_plan().tile_m, " keys or rows")
                                             : cat(config_.dkdv_plan().tile_m, " keys x ", plan_tile_n, " rows")}};
  for (Fact& fact : small_ ? config_.small_facts() : config_.facts()) facts.push_back(std::move(fact));
  if (dkdv_.plan) {
    facts.push_back({"plan", cat("built on the device: ", refusal_.empty() ? dkdv_.band->refusal() : refusal_)});
    facts.push_back({"items", cat(dkdv_.max_items(), " at most")});
    for (Fact& fact : dkdv_.plan->facts()) facts.push_back(std::move(fact));
  } else {
    facts.push_back({"plan", cat("none: the mask is a band, ",
                                 dkdv_.bytes() == 0 ? "told in the kernel's parameters" : "uploaded")});
    facts.push_back({"items", cat(dkdv_.max_items())});
  }
  if (!small_)
    facts.push_back({"not sm80_attention_bwd_small", config_.small_head_dim > 0 ? refusal_ : config_.why_not_small});
  facts.push_back({"workspace bytes", cat(bytes())});
  return facts;
}

}  // namespace anymask
