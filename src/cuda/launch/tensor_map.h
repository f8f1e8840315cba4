// Tensor maps for TMA: what a box load needs to know of q, k or v.
//
// Five axes: (dim, head, token, outer, wrap). Batch form: outer is the batch entry, wrap has size 1.
// Packed form: a sequence of `length` tokens at `begin` must read zeros beyond its end, though other sequences follow.
// The token axis has 2^30 entries, outer has the token's stride, and wrap the stride 2^34 bytes less that: local token
// r is at (2^30 - length + r, begin + length, 2^30) on those three axes; the 2^30 strides cancel modulo 2^64, and r >=
// length is out of bounds.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/dtype.h"
#include "cuda/attention_params.h"

namespace anymask {

struct MapShape {
  int64_t dim, tokens, heads, batch;
  bool packed;
};

// Boxes of 64 dims x `heads` x `tokens`, 128-byte swizzle. No axis may be empty; pointer and strides are multiples of
// 16 bytes. bf16 and f16.
CUtensorMap make_tensor_map(const CudaTensor& tensor, DType dtype, const MapShape& shape, int heads, int tokens);

}  // namespace anymask
