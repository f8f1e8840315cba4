// One attention call as users make it -> a checked AttentionProblem and the backend for it. Every check of tensors and
// options is here, and all of them pass before anything is written.
#pragma once

#include <memory>

#include "anymask/anymask.h"
#include "backend/backend.h"
#include "core/interrupt.h"
#include "mask/mask.h"

struct anymask_mask_s {
  anymask::Mask mask;
};

namespace anymask {

// The arguments of anymask_forward and anymask_backward; those a direction does not have are NULL.
struct CallArguments {
  Direction direction = Direction::forward;
  bool shapes_only = false;  // explain and workspace queries: q, k, v may have no data, and there are no outputs
  const DLTensor *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *lse = nullptr;
  const DLTensor *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const anymask_options* options = nullptr;

  const char* operation() const { return direction == Direction::forward ? "attention" : "attention backward"; }
};

struct Call {
  AttentionProblem problem;
  const Mask* mask = nullptr;          // lives as long as the caller's handle, this call, or for ever
  std::shared_ptr<const Mask> packed;  // where the call made one of its own
  const Backend* named = nullptr;      // null: "auto"
  Launch launch;
  InterruptFunction interrupted = nullptr;  // null: nobody is asked
  void* interrupted_context = nullptr;
};

// Throws Error, with the message of the first thing that is wrong.
Call check_call(const CallArguments& arguments);

}  // namespace anymask
