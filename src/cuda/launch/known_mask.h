// A mask bound to a call's lengths, and the bands made of it. A mask that holds no arrays says the same of the same
// lengths every time, so a thread keeps those of its last calls: in a small call, binding a mask and writing its band
// take longer than all the rest before the launch (docs/notes/host.md).
#pragma once

#include <memory>
#include <vector>

#include "core/problem.h"
#include "cuda/launch/band.h"
#include "cuda/launch/kernel.h"
#include "mask/bound_mask.h"

namespace anymask {

class KnownMask {
 public:
  // Of this thread: bound before, or bound now. No other thread may use it.
  static std::shared_ptr<KnownMask> of(const Mask& mask, const AttentionProblem& problem);

  // `bound` is bound to the problem's lengths.
  KnownMask(BoundMask bound, const AttentionProblem& problem);

  const BoundMask& bound() const { return bound_; }
  // Its band for a pass (see BandSource): made before, or made now.
  std::shared_ptr<const BandSource> band(const PlanShape& shape, bool reads);

 private:
  struct Made {
    PlanShape shape;
    bool reads;
    std::shared_ptr<const BandSource> band;
  };

  AttentionProblem lengths_;  // heads, head dims and sequences, and nothing else: a band may depend on no more
  MaskProgram program_;       // of masks that are kept
  BoundMask bound_;
  std::vector<Made> bands_;
};

}  // namespace anymask
