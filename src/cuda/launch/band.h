// A bound mask as a band in a kernel's parameters (cuda/band_params.h), where it is one: then a call needs no plan.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/problem.h"
#include "cuda/attention_params.h"
#include "cuda/launch/kernel.h"
#include "mask/bound_mask.h"

namespace anymask {

// Why a mask is no band that kernels read; empty: it is one.
std::string why_no_band(const BoundMask& mask);

class BandSource {
 public:
  // Items are rows of queries and count query heads, shape.fold at a time; or transposed ones, rows of keys, and count
  // kv heads or query heads. Nothing is enqueued; the mask is not needed later.
  // `reads`: whether the kernel reads bands at all.
  BandSource(const BoundMask& mask, const AttentionProblem& problem, const PlanShape& shape, bool reads = true);

  // Why the call needs a plan; empty: it does not, and only then is the rest of any use.
  const std::string& refusal() const { return refusal_; }
  int64_t max_items() const { return band_.num_items; }
  int64_t partial_slots() const { return slots_; }  // pieces of rows that are cut
  size_t bytes() const;  // of device memory, a multiple of 16; 0: everything lies in the parameters
  // Enqueues what fills `memory` (bytes() long, 16-byte aligned), where that is more than nothing.
  void enqueue(CudaBand& to, void* memory, cudaStream_t stream) const;

 private:
  template <class T>
  uint32_t append(const std::vector<T>& values);
  void add_planes(const BoundMask& mask);
  void add_sections(const AttentionProblem& problem, const BoundMask& mask, const PlanShape& shape,
                    std::span<const int32_t> pieces);

  CudaBand band_{};
  int64_t slots_ = 0;
  std::vector<std::byte> block_;
  std::string refusal_;
};

}  // namespace anymask
