// Launches what builds a plan: the upload, then five kernels, six or seven where arrays lie on the device. Everything
// is enqueued, nothing waits. Where a mask keeps the largest of rows that lie there, they are selected first, or, where
// the plan is that selection alone, in the place of its evaluation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "cuda/launch/kernel.h"
#include "cuda/plan/plan_data.h"
#include "cuda/plan/upload.h"

namespace anymask {

// Copies `bytes` (a multiple of 16 long) to device memory, in order with the stream. The source need not outlive the
// call: short ones travel as parameters of a kernel, which a captured graph keeps; longer ones are staged by the
// runtime, or, while a graph is captured, owned by the graph.
void upload_plan(std::vector<std::byte> bytes, void* to, cudaStream_t stream);

struct PlanBuildShape {
  int32_t num_rows, num_planes, pairs;
  int32_t tile_m, max_m_blocks, max_n_blocks;
  Fold fold;
  int64_t max_bit_tiles;
  int32_t num_made;    // leaves made of arrays on the device
  int64_t made_units;  // of the largest of them: a warp each
  bool made_heaps;
  std::span<const PlanUpload::Selection> selections;
  bool emits_tiles;
};
// What rows are selected among.
void launch_candidates(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                       cudaStream_t stream);
// What the mask selects, and no plan.
void launch_selections(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                       cudaStream_t stream);
void launch_plan_build(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                       cudaStream_t stream);

}  // namespace anymask
