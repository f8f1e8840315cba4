#include "cuda/launch/backward_call.h"

#include "cuda/launch/carve.h"
#include "cuda/launch/params.h"
#include "cuda/launch/sm80_attention_bwd.h"

namespace anymask {
BackwardCall::BackwardCall(const AttentionProblem& problem, const BoundMask& mask)
    : problem_(problem),
      device_(cuda_device(problem.device.index)),
      config_(choose_sm80_attention_bwd(problem, device_, groups_share_planes(mask, problem.group()))),
      dkdv_plan_(mask, problem, config_.dkdv_plan(), device_) {
  if (config_.two_passes) dq_plan_ = std::make_unique<CudaPlanSource>(mask, problem, config_.dq_plan(), device_);
}

BackwardCall::Places BackwardCall::places(void* workspace) const {
  Carve carve(workspace);
  Places at{};
  at.sequences = carve.take<CudaSequence>(sequence_count(problem_));
  at.dkdv_plan = carve.take<char>(dkdv_plan_.bytes());
  at.dq_plan = carve.take<char>(dq_plan_ ? dq_plan_->bytes() : 0);
  at.scratch = carve.take<char>(sm80_attention_bwd_scratch_bytes(problem_, config_));
  at.bytes = carve.bytes();
  return at;
}

void BackwardCall::enqueue(void* workspace, cudaStream_t stream) const {
  const Places at = places(workspace);
  AttentionParams transposed = make_params(problem_);
  transposed.sequences = enqueue_sequences(problem_, at.sequences, stream);
  AttentionParams forward = transposed;
  transposed.plan = dkdv_plan_.enqueue(at.dkdv_plan, stream);
  if (dq_plan_) forward.plan = dq_plan_->enqueue(at.dq_plan, stream);
  launch_sm80_attention_bwd(transposed, forward, at.scratch, config_, device_, stream);
}

std::vector<Fact> BackwardCall::facts() const {
  std::vector<Fact> facts = {{"tile", cat(config_.dkdv_plan().tile_m, " keys x ", plan_tile_n, " rows")}};
  for (Fact& fact : config_.facts()) facts.push_back(std::move(fact));
  facts.push_back({"items", cat(dkdv_plan_.max_items(), " at most")});
  for (Fact& fact : dkdv_plan_.facts()) facts.push_back(std::move(fact));
  facts.push_back({"workspace bytes", cat(bytes())});
  return facts;
}

}  // namespace anymask
