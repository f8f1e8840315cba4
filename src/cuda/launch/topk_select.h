// Launches topk_select in the configuration that was chosen; enqueues only.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/config/topk_select.h"
#include "cuda/topk_params.h"

namespace anymask {

// rows_at_once and segments are taken from `config`.
void launch_topk_select(TopkParams params, const TopkSelectConfig& config, const CudaDevice& device,
                        cudaStream_t stream);

// The kernels of one type, each in a file of its own.
template <DType dtype>
void launch_topk_select_of(const TopkParams& params, const TopkSelectConfig& config, const CudaDevice& device,
                           cudaStream_t stream);

}  // namespace anymask
