// Launches of the kernels around a call over gathered keys (kernels/gather_keys.cuh). Everything is enqueued, nothing
// waits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/gather_params.h"
#include "cuda/launch/kernel.h"

namespace anymask {

// Longest of the planes and sequences: what grids are made for.
struct GatherExtents {
  int64_t keys, lines;
};

// Keys that a block of gather_list takes: 32 blocks a row, or fewer.
int32_t gather_stretch(int64_t keys);
// Before a selection among `chosen`: the rows that lists are made by.
void launch_chosen(const GatherParams& params, cudaStream_t stream);
// After the selection: lists, rows of K and V, the bias, ends of rows.
void launch_gather(const GatherParams& params, const GatherExtents& extents, cudaStream_t stream);
// After both: the rows that keep each place of a list, where all lists have places for it.
void launch_columns(const GatherParams& params, const CudaDevice& device, cudaStream_t stream);
// After the gradients of what was gathered.
void launch_scatter(const GatherParams& params, const GatherExtents& extents, cudaStream_t stream);

}  // namespace anymask
