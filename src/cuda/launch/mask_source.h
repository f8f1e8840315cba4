// How a kernel learns what a mask keeps: a band in its parameters where the mask is one, else a plan built on the
// device before it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda/launch/known_mask.h"
#include "cuda/launch/plan.h"

namespace anymask {

class MaskSource {
 public:
  MaskSource() = default;  // of no pass
  // `reads`: whether the kernel reads bands at all. Nothing is enqueued; the mask is not needed later.
  MaskSource(KnownMask& mask, const AttentionProblem& problem, const PlanShape& shape, const CudaDevice& device,
             bool reads = true);

  bool planned() const { return plan_ != nullptr; }
  const std::string& why_planned() const { return band_->refusal(); }
  size_t bytes() const { return plan_ ? plan_->bytes() : band_ ? band_->bytes() : 0; }  // of device memory
  int64_t max_items() const { return plan_ ? plan_->max_items() : band_ ? band_->max_items() : 0; }
  int64_t partial_slots() const { return plan_ ? plan_->partial_slots() : band_ ? band_->partial_slots() : 0; }
  // Enqueues what fills `memory` (bytes() long, 256-byte aligned), and tells the kernel where to look.
  void enqueue(AttentionParams& params, void* memory, cudaStream_t stream) const;
  std::vector<Fact> facts() const;

 private:
  std::shared_ptr<const BandSource> band_;
  std::unique_ptr<const CudaPlanSource> plan_;  // null: the band is enough
};

}  // namespace anymask
