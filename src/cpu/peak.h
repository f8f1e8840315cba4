// The multiply-add rate of this machine, measured now: what shares of peak are shares of.
#pragma once

#include "core/dtype.h"

namespace anymask {

// FLOP/s of `num_threads` threads (0: all available): fp32 fused multiply-adds with the target in force, or, for bf16,
// the bf16 dot product (0 where the processor lacks it). The best of several runs of a few milliseconds.
double cpu_peak(DType dtype, int num_threads);

}  // namespace anymask
