// What surrounds dbias: zeros before the dQ kernel adds or stores what is kept, the unit of the fixed-point sums, and
// their way to the tensor.
//
// A broadcast bias gets sums over rows, heads or batch entries, which blocks add in any order. In 64-bit integers the
// order does not matter. Their unit comes from a bound: |dS| <= P (2 |dout| |v| + |dlse|) with the largest norms of the
// call, and the P of a row sum to at most 1, so no sum exceeds rows * h_q times that. It is set so that the bound is
// below 2^62: with a million rows, what is lost is 2^-42 of the largest possible term.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/tile/backward_score.cuh"
#include "cuda/tile/backward_scratch.h"

namespace anymask {

// An element of dbias_shape in its row-major order -> its place in the tensor.
__device__ __forceinline__ int64_t dbias_place(const AttentionParams& p, const BackwardScratch& w, int64_t i) {
  const int64_t key = i % w.dbias_shape[3], row = i / w.dbias_shape[3] % w.dbias_shape[2];
  const int64_t rest = i / w.dbias_shape[3] / w.dbias_shape[2];
  return rest / w.dbias_shape[1] * p.dbias.stride_b + rest % w.dbias_shape[1] * p.dbias.stride_h +
         row * p.dbias.stride_q + key * p.dbias.stride_kv;
}
__device__ __forceinline__ int64_t dbias_size(const BackwardScratch& w) {
  return w.dbias_shape[0] * w.dbias_shape[1] * w.dbias_shape[2] * w.dbias_shape[3];
}

// Any grid. Sums, or the tensor itself.
__global__ void __launch_bounds__(256)
    backward_zero_dbias(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
  ptx::wait_for_previous();
  for (int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x; i < dbias_size(w); i += int64_t{gridDim.x} * 256) {
    if (w.dbias_sum != nullptr) {
      w.dbias_sum[i] = 0;
    } else {
      store_element(p.dbias.data, p.dbias.dtype, dbias_place(p, w, i), 0);
    }
  }
}

// Largest norms, by one thread a row; bits of floats that are not negative order as integers do, and NaN above all.
// dbias_bounds starts as zeros. Any grid.
template <class T>
__global__ void __launch_bounds__(256)
    backward_dbias_bounds(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
  ptx::wait_for_previous();
  const auto largest = [&](int which, float x) {
    const uint32_t bits = __reduce_max_sync(__activemask(), __float_as_uint(x) & 0x7fffffffu);
    if (bits > w.dbias_bounds[which]) atomicMax(w.dbias_bounds + which, bits);
  };
  const auto squares = [&](const CudaTensor& t, int64_t batch, int64_t token, int head, int dim) {
    const T* row = static_cast<const T*>(t.data) + batch * t.stride_b + token * t.stride_s + head * t.stride_h;
    float sum = 0;
    for (int d = 0; d < dim; ++d) sum = fmaf(static_cast<float>(row[d]), static_cast<float>(row[d]), sum);
    return sum;
  };
  const int64_t batches = p.packed ? 1 : p.num_sequences, step = int64_t{gridDim.x} * 256;
  for (int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x; i < w.rows * p.h_q; i += step) {
    const int head = static_cast<int>(i % p.h_q);
    const int64_t batch = p.packed ? 0 : i / p.h_q / p.tokens_q, token = i / p.h_q - batch * p.tokens_q;
    largest(0, squares(p.dout, batch, token, head, p.d_v));
    if (p.dlse.data != nullptr)
      largest(2, p.dlse.data[batch * p.dlse.stride_b + head * p.dlse.stride_h + token * p.dlse.stride_q]);
  }
  for (int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x; i < batches * p.tokens_kv * p.h_kv; i += step) {
    const int head = static_cast<int>(i % p.h_kv);
    const int64_t batch = p.packed ? 0 : i / p.h_kv / p.tokens_kv, token = i / p.h_kv - batch * p.tokens_kv;
    largest(1, squares(p.v, batch, token, head, p.d_v));
  }
}

// One thread.
__global__ void backward_dbias_unit(const __grid_constant__ AttentionParams p,
                                    const __grid_constant__ BackwardScratch w) {
  ptx::wait_for_previous();
  const double bound = (2 * sqrt(double{__uint_as_float(w.dbias_bounds[0])} * __uint_as_float(w.dbias_bounds[1])) +
                        __uint_as_float(w.dbias_bounds[2])) *
                       1.01 * static_cast<double>(w.rows) * p.h_q;
  // Not a number, or no end to it: sums mean nothing, and are said to be NaN.
  *w.dbias_exponent = !(bound < 1e300) ? INT32_MIN : bound == 0 ? 0 : min(max(61 - ilogb(bound), -126), 126);
}

// Any grid.
__global__ void __launch_bounds__(256)
    backward_finish_dbias(const __grid_constant__ AttentionParams p, const __grid_constant__ BackwardScratch w) {
  ptx::wait_for_previous();
  const int exponent = *w.dbias_exponent;
  for (int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x; i < dbias_size(w); i += int64_t{gridDim.x} * 256) {
    const auto sum = static_cast<double>(static_cast<long long>(w.dbias_sum[i]));
    store_element(p.dbias.data, p.dbias.dtype, dbias_place(p, w, i),
                  exponent == INT32_MIN ? NAN : static_cast<float>(scalbn(sum, -exponent)));
  }
}

}  // namespace anymask
