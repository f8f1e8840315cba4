// One forward call on a device: the kernel chosen for it, its band or its plan, and its places in the caller's
// workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "cuda/config/sm80_attention_fwd.h"
#include "cuda/config/sm90_attention_fwd.h"
#include "cuda/launch/device.h"
#include "cuda/launch/mask_source.h"

namespace anymask {

// What a forward call computes with. Exactly one of the two is there.
struct ForwardKernel {
  std::optional<Sm90ForwardConfig> sm90;
  std::optional<Sm80ForwardConfig> sm80;
  PlanShape plan_shape() const;
};
ForwardKernel choose_forward_kernel(const AttentionProblem& problem, const BoundMask& mask, const CudaDevice& device);

class ForwardCall {
 public:
  // `problem` must outlive it; `mask` is bound to its lengths. Nothing is enqueued.
  ForwardCall(const AttentionProblem& problem, KnownMask& mask);

  size_t bytes() const { return places(nullptr).bytes; }  // of the workspace
  void enqueue(void* workspace, cudaStream_t stream) const;
  std::vector<Fact> facts() const;

 private:
  struct Places {
    CudaTickets* tickets;
    CudaSequence* sequences;
    float *partial_out, *partial_lse;
    CudaArrivals* arrivals;
    CudaArrivalsOpen* arrivals_open;
    void* mask;
    size_t bytes;
  };
  Places places(void* workspace) const;

  const AttentionProblem& problem_;
  const CudaDevice& device_;
  ForwardKernel kernel_;
  const MaskSource mask_;
  bool draws_tickets_ = true;  // there are more items than blocks, or may be
};

}  // namespace anymask
