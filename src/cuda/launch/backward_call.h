// One backward call on a device: its configuration, its bands or its plans, and its places in the caller's workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "backend/backend.h"
#include "cuda/config/sm80_attention_bwd.h"
#include "cuda/launch/device.h"
#include "cuda/launch/mask_source.h"

namespace anymask {

class BackwardCall {
 public:
  // `problem` must outlive it; `mask` is bound to its lengths. Nothing is enqueued.
  BackwardCall(const AttentionProblem& problem, KnownMask& mask);

  size_t bytes() const { return places(nullptr).bytes; }  // of the workspace
  void enqueue(void* workspace, cudaStream_t stream) const;
  std::vector<Fact> facts() const;

 private:
  struct Places {
    CudaSequence* sequences;
    void *dkdv, *dq, *scratch;
    size_t bytes;
  };
  Places places(void* workspace) const;

  const AttentionProblem& problem_;
  const CudaDevice& device_;
  const Sm80AttentionBwdConfig config_;
  bool small_ = false;    // in one launch
  MaskSource dkdv_, dq_;  // dkdv_ of everything in small calls; dq_ with two passes alone
};

}  // namespace anymask
