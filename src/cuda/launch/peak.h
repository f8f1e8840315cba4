// One launch of each kernel that does nothing but multiply. `blocks` run `steps` steps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace anymask {

void launch_sm80_peak(float* sink, int32_t blocks, int32_t steps, cudaStream_t stream);
void launch_sm90_peak(float* sink, int32_t blocks, int32_t steps, cudaStream_t stream);
double sm80_peak_flops_per_step();
double sm90_peak_flops_per_step();

}  // namespace anymask
