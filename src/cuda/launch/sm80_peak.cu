// The launch of sm80_peak.
#include "cuda/kernels/sm80_peak.cuh"

#include "cuda/launch/peak.h"

namespace anymask {

void launch_sm80_peak(float* sink, int32_t blocks, int32_t steps, cudaStream_t stream) {
  sm80_peak<<<static_cast<unsigned>(blocks), sm80_peak_threads, 0, stream>>>(sink, steps);
}
double sm80_peak_flops_per_step() { return sm80_peak_flops; }

}  // namespace anymask
