#include "cuda/launch/backward_call.h"

#include "cuda/launch/carve.h"
#include "cuda/launch/params.h"
#include "cuda/launch/sm80_attention_bwd.h"

namespace anymask {

BackwardCall::BackwardCall(const AttentionProblem& problem, KnownMask& mask)
    : problem_(problem),
      device_(cuda_device(problem.device.index)),
      config_(choose_sm80_attention_bwd(problem, device_, groups_share_planes(mask.bound(), problem.group()))) {
  if (config_.small_head_dim > 0 && why_no_band(mask.bound()).empty()) {
    dkdv_ = MaskSource(mask, problem_, config_.small_plan(), device_);
    small_ = !dkdv_.planned();
    if (small_) return;
  }
  dkdv_ = MaskSource(mask, problem_, config_.dkdv_plan(), device_);
  if (config_.two_passes) dq_ = MaskSource(mask, problem_, config_.dq_plan(), device_);
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
  if (small_) {
    AttentionParams params = make_params(problem_);
    dkdv_.enqueue(params, at.dkdv, stream);
    return launch_sm80_attention_bwd_small(params, config_, device_, stream);
  }
  Sm80BwdCall call{make_params(problem_), {}, dkdv_.max_items(), dq_.max_items()};
  // A band holds its sequences.
  if (dkdv_.planned() || dq_.planned()) call.dkdv.sequences = enqueue_sequences(problem_, at.sequences, stream);
  call.dq = call.dkdv;
  dkdv_.enqueue(call.dkdv, at.dkdv, stream);
  if (config_.two_passes) dq_.enqueue(call.dq, at.dq, stream);
  launch_sm80_attention_bwd(call, at.scratch, config_, device_, stream);
}

std::vector<Fact> BackwardCall::facts() const {
  std::vector<Fact> facts = {{"tile", small_ ? cat(config_.small_plan().tile_m, " keys or rows")
                                             : cat(config_.dkdv_plan().tile_m, " keys x ", plan_tile_n, " rows")}};
  for (Fact& fact : small_ ? config_.small_facts() : config_.facts()) facts.push_back(std::move(fact));
  for (Fact& fact : dkdv_.facts()) facts.push_back(std::move(fact));
  if (!small_)
    facts.push_back(
        {"not sm80_attention_bwd_small", config_.small_head_dim > 0 ? dkdv_.why_planned() : config_.why_not_small});
  facts.push_back({"workspace bytes", cat(bytes())});
  return facts;
}

}  // namespace anymask
