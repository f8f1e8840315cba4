#include "cuda/launch/mask_source.h"

#include <utility>

#include "core/error.h"

namespace anymask {

MaskSource::MaskSource(KnownMask& mask, const AttentionProblem& problem, const PlanShape& shape,
                       const CudaDevice& device, bool reads)
    : band_(mask.band(shape, reads)) {
  if (!band_->refusal().empty()) plan_ = std::make_unique<const CudaPlanSource>(mask.bound(), problem, shape, device);
}

void MaskSource::enqueue(AttentionParams& params, void* memory, cudaStream_t stream) const {
  if (plan_) {
    params.plan = plan_->enqueue(memory, stream);
  } else {
    band_->enqueue(params.band, memory, stream);
  }
}

std::vector<Fact> MaskSource::facts() const {
  if (!plan_)
    return {{"plan", cat("none: the mask is a band, ", bytes() == 0 ? "told in the kernel's parameters" : "uploaded")},
            {"items", cat(max_items())}};
  std::vector<Fact> facts = {{"plan", cat("built on the device: ", why_planned())},
                             {"items", cat(max_items(), " at most")}};
  for (Fact& fact : plan_->facts()) facts.push_back(std::move(fact));
  return facts;
}

}  // namespace anymask
