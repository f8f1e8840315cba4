// A call whose rows choose among the same keys, or neighbours among almost the same, rewritten as calls over those keys
// alone.
//
//   topk(bias, w) & bands  ──►  select one row a plane, list its keys in ascending order, gather their rows of K, V and
//                               the bias  ──►  the same call on [.., w, ..] tensors in the workspace, under a mask that
//                               is a band: of the list a row sees what the bands leave it, two places found by search
//
//   topk(bias, w, among=band) & bands  ──►  the same for blocks of rows, each of which becomes a sequence of a packed
//                               call: its list holds all that some of its rows keep  ──►  topk(values, w, among=band)
//                               & band, on [.., w and a few, ..] tensors
//
// The inner calls know nothing of it: any kernel and any plan compute them. Gradients of what was gathered are
// scattered back. Where true positions of keys are asked for (ALiBi) or rows have biases of their own, all keys are
// visited.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <list>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "cuda/config/topk_select.h"
#include "cuda/gather_params.h"
#include "cuda/launch/carve.h"
#include "cuda/launch/gather_keys.h"
#include "cuda/launch/kernel.h"
#include "cuda/launch/known_mask.h"
#include "cuda/plan/gather_layout.h"
#include "cuda/plan/upload.h"
#include "mask/bound_mask.h"

namespace anymask {

// A call over gathered keys: its tensors and its mask's arrays lie in the memory.
struct KeysCall {
  AttentionProblem problem;
  BoundMask mask;
};

class GatheredKeys {
 public:
  // By a layout that is supported. `memory`: bytes() of the device's, 256-byte aligned; null: only the size is asked
  // for.
  GatheredKeys(const AttentionProblem& problem, const BoundMask& mask, const GatherLayout& layout, Direction direction,
               const CudaDevice& device, void* memory);

  size_t bytes() const { return bytes_; }
  // One after the other; more than one where blocks of rows lie in several batch entries.
  const std::vector<KeysCall>& calls() const { return calls_; }

  void enqueue_before(cudaStream_t stream) const;  // what the calls read
  void enqueue_after(cudaStream_t stream) const;   // gradients to where they belong
  std::vector<Fact> facts() const;

 private:
  void add_planes(const BoundMask& mask, Carve& carve);
  void add_sequences(const AttentionProblem& problem);
  void add_tables(Carve& carve);
  void add_tensors(const AttentionProblem& problem, Carve& carve);
  PlaneMask plane_of_list(const GatherPlane& list, int64_t width) const;
  void add_call(const AttentionProblem& problem, const GatherSource& source, int64_t sequences);
  TopkSelectConfig lists_selection() const;

  const CudaDevice& device_;
  const bool backward_, by_rows_, by_columns_;
  const std::vector<std::vector<GatherBlock>> blocks_;
  const PlanUpload selection_;
  void* selection_memory_;
  GatherParams params_{};
  GatherExtents extents_{};
  std::vector<GatherPlane> planes_;
  std::vector<GatherSource> sources_;
  std::vector<GatherSequence> sequences_;
  std::vector<int32_t> plane_of_;  // lists of sequences and heads
  std::vector<LeafArgs> topk_;     // of the mask's planes
  int64_t tokens_ = 0;             // places of all lists
  std::vector<std::byte>
      tables_;                // planes, sources, sequences, planes of heads: uploaded to where params_.planes points
  AttentionProblem problem_;  // over the gathered keys, all calls together
  std::vector<KeysCall> calls_;
  size_t bytes_ = 0;
};

// A call of either direction, over gathered keys where that is worth it.
template <class Call, Direction direction>
class CallOverKeys {
 public:
  CallOverKeys(const AttentionProblem& problem, KnownMask& mask, const CudaDevice& device, void* workspace) {
    const GatherLayout layout = gather_layout(problem, mask.bound());
    support_ = layout.support;
    if (!support_.yes) {
      calls_.emplace_back(problem, mask);
      return;
    }
    gathered_ = std::make_unique<GatheredKeys>(problem, mask.bound(), layout, direction, device, workspace);
    for (const KeysCall& call : gathered_->calls()) {
      KnownMask inner(call.mask, call.problem);
      calls_.emplace_back(call.problem, inner);
    }
  }

  // Calls of one kind run one after the other in one workspace.
  size_t bytes() const {
    size_t most = 0;
    for (const Call& call : calls_) most = std::max(most, call.bytes());
    return gathered_bytes() + most;
  }
  void enqueue(void* workspace, cudaStream_t stream) const {
    if (gathered_) gathered_->enqueue_before(stream);
    for (const Call& call : calls_) call.enqueue(static_cast<std::byte*>(workspace) + gathered_bytes(), stream);
    if (gathered_) gathered_->enqueue_after(stream);
  }
  std::vector<Fact> facts() const {
    std::vector<Fact> facts = calls_.front().facts();
    if (gathered_) {
      for (Fact& fact : gathered_->facts()) facts.push_back(std::move(fact));
    } else if (!support_.reason.empty()) {
      facts.push_back({"keys are not gathered", support_.reason});
    }
    return facts;
  }

 private:
  size_t gathered_bytes() const { return gathered_ ? gathered_->bytes() : 0; }

  Support support_;
  std::unique_ptr<const GatheredKeys> gathered_;
  std::list<Call> calls_;
};

}  // namespace anymask
