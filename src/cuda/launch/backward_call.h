// One backward call on a device: its configuration, its bands or its plans, and its places in the caller's workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cuda/config/sm80_attention_bwd.h"
#include "cuda/launch/band.h"
#include "cuda/launch/device.h"
#include "cuda/launch/plan.h"

namespace anymask {

class BackwardCall {
 public:
  // `problem` must outlive it; `mask` is bound to its lengths. Nothing is enqueued.
  BackwardCall(const AttentionProblem& problem, const BoundMask& mask);

  size_t bytes() const { return places(nullptr).bytes; }  // of the workspace
  void enqueue(void* workspace, cudaStream_t stream) const;
  std::vector<Fact> facts() const;

 private:
  // A pass over the mask, which is told to it as a band, or has a plan.
  struct Source {
    std::unique_ptr<const BandSource> band;
    std::unique_ptr<const CudaPlanSource> plan;
    size_t bytes() const { return plan ? plan->bytes() : band ? band->bytes() : 0; }
    int64_t max_items() const { return plan ? plan->max_items() : band ? band->max_items() : 0; }
    void enqueue(AttentionParams& params, void* memory, cudaStream_t stream) const;
  };
  Source source(const BoundMask& mask, const PlanShape& shape) const;

  struct Places {
    CudaSequence* sequences;
    void *dkdv, *dq, *scratch;
    size_t bytes;
  };
  Places places(void* workspace) const;

  const AttentionProblem& problem_;
  const CudaDevice& device_;
  const Sm80AttentionBwdConfig config_;
  const std::string refusal_;  // why the mask is no band; empty: it is
  bool small_ = false;         // in one launch
  Source dkdv_, dq_;           // dkdv_ of everything in small calls; dq_ with two passes alone
};

}  // namespace anymask
