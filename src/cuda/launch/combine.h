// Launches combine: the merge of split rows. Only where the plan may hold some; enqueues only.
#pragma once

#include <cuda_runtime_api.h>

#include "core/dtype.h"
#include "cuda/attention_params.h"
#include "cuda/launch/kernel.h"

namespace anymask {

// After the forward kernel, in the same stream. `dtype` of out, bf16 or f16.
void launch_combine(const AttentionParams& params, DType dtype, const CudaDevice& device, cudaStream_t stream);

}  // namespace anymask
