// A plan in device memory for one call: how much of the workspace it takes, and the work that puts it there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/problem.h"
#include "cuda/attention_params.h"
#include "cuda/launch/kernel.h"
#include "mask/bound_mask.h"

namespace anymask {

class CudaPlanSource {
 public:
  // `mask` is bound to the problem's lengths, its arrays on the host or on this device. It is not needed later; those
  // on the device are, where they are, whenever what was enqueued runs. Nothing is enqueued.
  CudaPlanSource(const BoundMask& mask, const AttentionProblem& problem, const PlanShape& shape,
                 const CudaDevice& device);
  ~CudaPlanSource();
  CudaPlanSource(const CudaPlanSource&) = delete;
  CudaPlanSource& operator=(const CudaPlanSource&) = delete;

  size_t bytes() const;           // of device memory, a multiple of 256
  int32_t partial_slots() const;  // pieces of split rows at most: what partial_out and partial_lse must hold
  int64_t max_items() const;      // *num_items at most
  std::vector<Fact> facts() const;
  // Enqueues what fills `memory` (bytes() long, 256-byte aligned); returns pointers into it. Does not synchronise.
  CudaPlan enqueue(void* memory, cudaStream_t stream) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace anymask
