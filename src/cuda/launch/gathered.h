// A call whose rows all choose among the same keys, rewritten as a call over those keys alone.
//
//   topk(bias, w) & bands  ──►  select one row a plane, list its keys in ascending order, gather their rows of K, V and
//                               the bias  ──►  the same call on [.., w, ..] tensors in the workspace, under a mask that
//                               is a band: of the list a row sees what the bands leave it, two places found by search
//
// The inner call knows nothing of it: any kernel and any plan compute it. Gradients of what was gathered are scattered
// back. Where true positions of keys are asked for (ALiBi) or rows have biases of their own, all keys are visited.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "cuda/gather_params.h"
#include "cuda/launch/carve.h"
#include "cuda/launch/gather_keys.h"
#include "cuda/launch/kernel.h"
#include "cuda/launch/known_mask.h"
#include "cuda/plan/upload.h"
#include "mask/bound_mask.h"

namespace anymask {

// Whether a call is computed over gathered keys; if not, and its mask has a selection that is the same for all rows,
// why not (else the reason is empty).
Support gathers(const AttentionProblem& problem, const BoundMask& mask);

class GatheredKeys {
 public:
  // For a call that gathers. `memory`: bytes() of the device's, 256-byte aligned; null: only the size is asked for.
  GatheredKeys(const AttentionProblem& problem, const BoundMask& mask, Direction direction, const CudaDevice& device,
               void* memory);

  size_t bytes() const { return bytes_; }
  // The call over the gathered keys: its tensors and its mask's arrays lie in the memory.
  const AttentionProblem& problem() const { return problem_; }
  const BoundMask& mask() const { return mask_; }

  void enqueue_before(cudaStream_t stream) const;  // what the call reads
  void enqueue_after(cudaStream_t stream) const;   // gradients to where they belong
  std::vector<Fact> facts() const;

 private:
  void add_tables(const AttentionProblem& problem, const BoundMask& mask, bool backward, Carve& carve);
  void add_tensors(const AttentionProblem& problem, bool backward, Carve& carve);

  const CudaDevice& device_;
  const Direction direction_;
  const PlanUpload selection_;
  void* selection_memory_;
  GatherParams params_{};
  GatherExtents extents_{};
  std::vector<std::byte> tables_;  // planes, sequences, planes of heads: uploaded to where params_.planes points
  AttentionProblem problem_;
  BoundMask mask_;
  int64_t keys_ = 0, kept_ = 0;  // of all sequences, for facts()
  size_t bytes_ = 0;
};

// A call of either direction, over gathered keys where that is worth it.
template <class Call, Direction direction>
class CallOverKeys {
 public:
  CallOverKeys(const AttentionProblem& problem, KnownMask& mask, const CudaDevice& device, void* workspace)
      : support_(gathers(problem, mask.bound())),
        gathered_(support_.yes ? std::make_unique<GatheredKeys>(problem, mask.bound(), direction, device, workspace)
                               : nullptr),
        call_(gathered_ ? over_keys(*gathered_) : Call(problem, mask)) {}

  size_t bytes() const { return gathered_bytes() + call_.bytes(); }
  void enqueue(void* workspace, cudaStream_t stream) const {
    if (gathered_) gathered_->enqueue_before(stream);
    call_.enqueue(static_cast<std::byte*>(workspace) + gathered_bytes(), stream);
    if (gathered_) gathered_->enqueue_after(stream);
  }
  std::vector<Fact> facts() const {
    std::vector<Fact> facts = call_.facts();
    if (gathered_) {
      for (Fact& fact : gathered_->facts()) facts.push_back(std::move(fact));
    } else if (!support_.reason.empty()) {
      facts.push_back({"keys are not gathered", support_.reason});
    }
    return facts;
  }

 private:
  static Call over_keys(const GatheredKeys& gathered) {
    KnownMask mask(gathered.mask(), gathered.problem());
    return Call(gathered.problem(), mask);
  }
  size_t gathered_bytes() const { return gathered_ ? gathered_->bytes() : 0; }

  const Support support_;
  const std::unique_ptr<const GatheredKeys> gathered_;
  const Call call_;
};

}  // namespace anymask
