// The launch of sm90_peak.
#include "cuda/kernels/sm90_peak.cuh"

#include "cuda/launch/peak.h"

namespace anymask {

void launch_sm90_peak(float* sink, int32_t blocks, int32_t steps, cudaStream_t stream) {
  sm90_peak<<<static_cast<unsigned>(blocks), sm90_peak_threads, 0, stream>>>(sink, steps);
}
double sm90_peak_flops_per_step() { return sm90_peak_flops; }

}  // namespace anymask
