// Where the row of a token and a head lies in a tensor of 16-bit numbers.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"

namespace anymask {

__device__ __forceinline__ uint16_t* row_at(const CudaTensor& t, int64_t batch, int64_t token, int head) {
  return static_cast<uint16_t*>(t.data) + batch * t.stride_b + token * t.stride_s + head * t.stride_h;
}

}  // namespace anymask
