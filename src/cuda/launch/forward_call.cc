#include "cuda/launch/forward_call.h"

#include <algorithm>
#include <sstream>

#include "cuda/config/facts.h"
#include "cuda/launch/carve.h"
#include "cuda/launch/combine.h"
#include "cuda/launch/params.h"
#include "cuda/launch/sm80_attention_fwd.h"
#include "cuda/launch/sm90_attention_fwd.h"

namespace anymask {

PlanShape ForwardKernel::plan_shape() const { return sm90 ? anymask::plan_shape(*sm90) : anymask::plan_shape(*sm80); }

namespace {

// Why the portable kernel takes a call that sm90_attention_fwd could compute (docs/notes/bands.md). The mask has no
// say: one mask said in two ways gives one result, to the bit.
Support worth_sm90(const AttentionProblem& problem, const CudaDevice& device, bool with_reason) {
  const auto no = [with_reason](const auto&... reason) { return unsupported(with_reason, reason...); };
  const int64_t head_dim = std::max(problem.d_qk, problem.d_v);
  if (head_dim <= 16)
    return no("head dims of ", head_dim, " would be padded to 64, and sm80_attention_fwd has a shape for 16");
  if (head_dim > 64 || problem.max_s_kv > 1024) return {};
  const Sm80ForwardConfig portable = choose_sm80_attention_fwd(problem, false, device);
  if (count_items(problem, portable.shape.tile_m()) > int64_t{device.num_sms} * portable.blocks_per_sm) return {};
  return no("so small a call is done in one wave of sm80_attention_fwd");
}

Support takes_sm90(const AttentionProblem& problem, const CudaDevice& device, bool with_reason) {
  Support support = sm90_attention_fwd_supports(problem, device, with_reason);
  return support.yes ? worth_sm90(problem, device, with_reason) : support;
}

}  // namespace

ForwardKernel choose_forward_kernel(const AttentionProblem& problem, const BoundMask& mask, const CudaDevice& device) {
  ForwardKernel kernel;
  if (takes_sm90(problem, device, false).yes) {
    kernel.sm90 = choose_sm90_attention_fwd(problem, mask_facts(mask, problem.group()), device);
  } else {
    kernel.sm80 = choose_sm80_attention_fwd(problem, groups_share_planes(mask, problem.group()), device);
  }
  return kernel;
}

ForwardCall::ForwardCall(const AttentionProblem& problem, KnownMask& mask)
    : problem_(problem),
      device_(cuda_device(problem.device.index)),
      kernel_(choose_forward_kernel(problem, mask.bound(), device_)),
      mask_(mask, problem, kernel_.plan_shape(), device_, !kernel_.sm90 || kernel_.sm90->shape.bands()) {
  if (mask_.planned()) return;
  // No more blocks than items, which are known: a block each, and none draws tickets.
  int32_t& grid = kernel_.sm90 ? kernel_.sm90->grid : kernel_.sm80->grid;
  draws_tickets_ = mask_.max_items() > grid;
  grid = static_cast<int32_t>(std::clamp<int64_t>(mask_.max_items(), 1, grid));
}

ForwardCall::Places ForwardCall::places(void* workspace) const {
  Carve carve(workspace);
  Places at{};
  at.tickets = carve.take<CudaTickets>(draws_tickets_ ? 1 : 0);
  const auto slots = static_cast<size_t>(mask_.partial_slots()),
             tile_m = static_cast<size_t>(kernel_.plan_shape().tile_m);
  if (slots > 0) {
    at.partial_out = carve.take<float>(slots * tile_m * static_cast<size_t>(problem_.d_v));
    at.partial_lse = carve.take<float>(slots * tile_m);
    if (kernel_.sm90) {  // which merges the pieces itself
      at.arrivals = carve.take<CudaArrivals>(slots * tile_m / 64);
      at.arrivals_open = carve.take<CudaArrivalsOpen>(1);
    }
  }
  if (mask_.planned()) at.sequences = carve.take<CudaSequence>(sequence_count(problem_));
  at.mask = carve.take<char>(mask_.bytes());
  at.bytes = carve.bytes();
  return at;
}

void ForwardCall::enqueue(void* workspace, cudaStream_t stream) const {
  if (problem_.sequences.empty() || problem_.max_s_q == 0) return;  // no rows, no results
  const Places at = places(workspace);
  AttentionParams params = make_params(problem_);
  params.tickets = at.tickets;
  params.partial_out = at.partial_out;
  params.partial_lse = at.partial_lse;
  params.arrivals = at.arrivals;
  params.arrivals_open = at.arrivals_open;
  params.slots = static_cast<int32_t>(mask_.partial_slots());
  if (mask_.planned()) {  // a band holds its sequences
    params.sequences = enqueue_sequences(problem_, at.sequences, stream);
  } else {
    params.plan.tile_m = kernel_.plan_shape().tile_m;
    params.plan.fold = fold_of(kernel_.plan_shape().fold);
  }
  mask_.enqueue(params, at.mask, stream);
  if (kernel_.sm90) {
    launch_sm90_attention_fwd(params, *kernel_.sm90, device_, stream);
  } else {
    launch_sm80_attention_fwd(params, *kernel_.sm80, device_, stream);
    launch_combine(params, problem_.dtype, device_, stream);
  }
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
                             {"workspace bytes", cat(bytes())}};
  for (Fact& fact : mask_.facts()) facts.push_back(std::move(fact));
  if (mask_.partial_slots() > 0)
    facts.push_back({"pieces of split rows", cat(mask_.partial_slots(), mask_.planned() ? " at most" : "")});
  if (!kernel_.sm90) facts.push_back({"not sm90_attention_fwd", takes_sm90(problem_, device_, true).reason});
  return facts;
}

}  // namespace anymask
