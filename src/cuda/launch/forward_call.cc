#include "cuda/launch/forward_call.h"

#include <sstream>

#include "cuda/launch/carve.h"
#include "cuda/launch/combine.h"
#include "cuda/launch/params.h"
#include "cuda/launch/sm80_attention_fwd.h"
#include "cuda/launch/sm90_attention_fwd.h"

namespace anymask {

PlanShape ForwardKernel::plan_shape() const { return sm90 ? anymask::plan_shape(*sm90) : anymask::plan_shape(*sm80); }

ForwardKernel choose_forward_kernel(const AttentionProblem& problem, const MaskFacts& mask, const CudaDevice& device) {
  ForwardKernel kernel;
  kernel.sm90_support = sm90_attention_fwd_supports(problem, device);
  if (kernel.sm90_support.yes) {
    kernel.sm90 = choose_sm90_attention_fwd(problem, mask, device);
  } else {
    kernel.sm80 = choose_sm80_attention_fwd(problem, device);
  }
  return kernel;
}

ForwardCall::ForwardCall(const AttentionProblem& problem, const BoundMask& mask)
    : problem_(problem),
      device_(cuda_device(problem.device.index)),
      kernel_(choose_forward_kernel(problem, mask_facts(mask, problem.group()), device_)),
      plan_(mask, problem, kernel_.plan_shape(), device_) {}

ForwardCall::Places ForwardCall::places(void* workspace) const {
  Carve carve(workspace);
  Places at{};
  at.work_counter = carve.take<int32_t>(1);
  at.sequences = carve.take<CudaSequence>(problem_.sequences.size());
  const size_t rows = static_cast<size_t>(plan_.partial_slots()) * static_cast<size_t>(kernel_.plan_shape().tile_m);
  at.partial_out = carve.take<float>(rows * static_cast<size_t>(problem_.d_v));
  at.partial_lse = carve.take<float>(rows);
  at.plan = carve.take<char>(plan_.bytes());
  at.bytes = carve.bytes();
  return at;
}

void ForwardCall::enqueue(void* workspace, cudaStream_t stream) const {
  if (problem_.sequences.empty() || problem_.max_s_q == 0) return;  // no rows, no results
  const Places at = places(workspace);
  AttentionParams params = make_params(problem_);
  params.sequences = enqueue_sequences(problem_, at.sequences, stream);
  params.partial_out = at.partial_out;
  params.partial_lse = at.partial_lse;
  params.work_counter = at.work_counter;
  check_cuda(cudaMemsetAsync(at.work_counter, 0, sizeof(int32_t), stream), "clearing the work counter");
  params.plan = plan_.enqueue(at.plan, stream);
  if (kernel_.sm90) {
    launch_sm90_attention_fwd(params, *kernel_.sm90, device_, stream);
  } else {
    launch_sm80_attention_fwd(params, *kernel_.sm80, device_, stream);
  }
  if (plan_.partial_slots() > 0) launch_combine(params, problem_.dtype, device_, stream);
}

std::vector<Fact> ForwardCall::facts() const {
  std::ostringstream config;
  if (kernel_.sm90) {
    config << *kernel_.sm90;
  } else {
    config << *kernel_.sm80;
  }
  std::vector<Fact> facts = {{"kernel", kernel_.sm90 ? "sm90_attention_fwd" : "sm80_attention_fwd"},
                             {"tile", cat(kernel_.plan_shape().tile_m, " x ", plan_tile_n)},
                             {"configuration", config.str()},
                             {"items", cat(plan_.max_items(), " at most")},
                             {"pieces of split rows", cat(plan_.partial_slots(), " at most")},
                             {"workspace bytes", cat(bytes())}};
  for (Fact& fact : plan_.facts()) facts.push_back(std::move(fact));
  if (!kernel_.sm90_support.yes) facts.push_back({"not sm90_attention_fwd", kernel_.sm90_support.reason});
  return facts;
}

}  // namespace anymask
