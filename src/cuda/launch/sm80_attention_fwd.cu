// Chooses the compiled shape. The shapes themselves are compiled by the files beside this one, a few each, so that they
// build in parallel.
#include "cuda/launch/sm80_attention_fwd.h"

#include <array>
#include <utility>

#include "core/error.h"

namespace anymask {

template <int32_t index>
void launch_sm80_attention_fwd_shape(const AttentionParams& params, const Sm80ForwardConfig& config,
                                     const CudaDevice& device, cudaStream_t stream);

namespace {

using Launch = void (*)(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&, cudaStream_t);

template <int32_t... index>
constexpr std::array<Launch, sizeof...(index)> launches(std::integer_sequence<int32_t, index...>) {
  return {&launch_sm80_attention_fwd_shape<index>...};
}

}  // namespace

void launch_sm80_attention_fwd(const AttentionParams& params, const Sm80ForwardConfig& config, const CudaDevice& device,
                               cudaStream_t stream) {
  static constexpr auto by_shape = launches(std::make_integer_sequence<int32_t, sm80_forward_num_shapes>{});
  if (config.dtype != DType::bf16 && config.dtype != DType::f16) {
    fail_unsupported("sm80_attention_fwd: tensors are ", name_of(config.dtype),
                     "; it computes in bfloat16 or float16: convert them, or use backend=\"cpu\"");
  }
  by_shape[static_cast<size_t>(config.shape_index)](params, config, device, stream);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    throw Error(Status::internal,
                cat("sm80_attention_fwd: the launch of ", config.grid, " blocks of ", 32 * config.shape.warps,
                    " threads failed on ", device.name, ": ", cudaGetErrorString(status), "; chosen was: ", config));
  }
}

}  // namespace anymask
