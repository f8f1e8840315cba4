// Rates of this machine, measured now, in a millisecond or two: what shares are shares of. What neighbours leave of a
// shared machine changes within seconds, so who compares a call with them measures right before and after it.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace anymask {

// FLOP/s of `num_threads` threads (0: all available): fp32 fused multiply-adds with the target in force, or, for bf16,
// the bf16 dot product (0 where the processor lacks it). It touches no memory.
double cpu_peak(DType dtype, int num_threads);

// FLOP/s of the fp32 forward's two products alone, as it makes them: rows of queries against 2,048 packed keys of this
// head dimension (a multiple of 8 up to 256), a chunk at a time. It reads what the forward reads and computes no
// softmax: a call far below it loses time beside the products, one near it can be no faster while memory is no faster.
double cpu_products(int64_t head_dim, int num_threads);

}  // namespace anymask
