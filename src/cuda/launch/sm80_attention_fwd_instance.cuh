// One compiled shape of sm80_attention_fwd, both types, plain and modified scores: what each sm80_attention_fwd_*.cu
// instantiates, and how it is launched.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

#include "core/error.h"
#include "cuda/kernels/sm80_attention_fwd.cuh"
#include "cuda/launch/sm80_attention_fwd.h"

namespace anymask {

// Allows the kernel its shared memory, once for each device. Repeating it is harmless: threads that race agree.
template <class T, class Traits>
void prepare_sm80_attention_fwd(const CudaDevice& device) {
  constexpr Sm80ForwardShape shape = Traits::shape;
  static_assert(sizeof(Sm80ForwardShared<Traits>) == shape.shared_bytes(2));
  static std::atomic<uint64_t> prepared{0};
  const uint64_t bit = device.index < 64 ? uint64_t{1} << device.index : 0;
  if (prepared.load(std::memory_order_acquire) & bit) return;
  const auto* kernel = reinterpret_cast<const void*>(&sm80_attention_fwd<T, Traits>);
  const int bytes = shape.shared_bytes(2) <= device.shared_bytes ? shape.shared_bytes(2) : shape.shared_bytes(1);
  cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaSuccess) {
    status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  }
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    fail_unsupported("sm80_attention_fwd: ", device.name, " refuses a block ", bytes, " bytes of shared memory (",
                     cudaGetErrorString(status),
                     "); this kernel needs compute capability 8.0 or later, and this device has ", device.major, ".",
                     device.minor, ": use backend=\"cpu\"");
  }
  prepared.fetch_or(bit, std::memory_order_release);
}

template <class T, class Traits>
void launch_sm80_attention_fwd_kernel(const AttentionParams& params, const Sm80ForwardConfig& config,
                                      const CudaDevice& device, cudaStream_t stream) {
  prepare_sm80_attention_fwd<T, Traits>(device);
  // Plain scores stay raw products, and the unit carries scale * log2(e); modified ones are natural.
  const float unit = Traits::modified ? log2_e_f : params.softmax_scale * log2_e_f;
  const Sm80ForwardOptions options{config.stages, config.aligned, config.bias_pairs, unit, rescale_slack / unit};
  const auto grid = static_cast<unsigned>(config.grid);
  sm80_attention_fwd<T, Traits>
      <<<grid, Traits::threads, static_cast<size_t>(config.shared_bytes), stream>>>(params, options);
}

template <int32_t index>
void launch_sm80_attention_fwd_shape(const AttentionParams& params, const Sm80ForwardConfig& config,
                                     const CudaDevice& device, cudaStream_t stream) {
  using Plain = Sm80ForwardTraits<index, false>;
  using Modified = Sm80ForwardTraits<index, true>;
  if (config.dtype == DType::bf16) {
    config.modified ? launch_sm80_attention_fwd_kernel<__nv_bfloat16, Modified>(params, config, device, stream)
                    : launch_sm80_attention_fwd_kernel<__nv_bfloat16, Plain>(params, config, device, stream);
  } else {
    config.modified ? launch_sm80_attention_fwd_kernel<__half, Modified>(params, config, device, stream)
                    : launch_sm80_attention_fwd_kernel<__half, Plain>(params, config, device, stream);
  }
}

}  // namespace anymask
