// Planes on their way into an upload: their steps and leaves, all in one list, each leaf once.
#pragma once

#include <map>
#include <vector>

#include "cuda/plan/upload.h"
#include "mask/plane_code.h"

namespace anymask {

struct PlanUpload::Steps {
  std::vector<PlaneStep> steps;
  std::vector<UploadedLeaf> leaves;
  std::vector<const BoundLeaf*> bound;         // of `leaves`
  std::map<const BoundLeaf*, uint32_t> known;  // planes share leaves
};

}  // namespace anymask
