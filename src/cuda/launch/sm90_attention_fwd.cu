// Tensor maps, and the choice among the compiled shapes: the files beside this one hold one each, so that they build in
// parallel.
#include "cuda/launch/sm90_attention_fwd.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "cuda/launch/tensor_map.h"
#include "cuda/tile/sm90_shared.cuh"

namespace anymask {

template <class T, int32_t index>
void launch_sm90_attention_fwd_shape(const sm90::Maps& maps, const AttentionParams& params,
                                     const Sm90ForwardConfig& config, const CudaDevice& device, cudaStream_t stream);

namespace {

using Launch = void (*)(const sm90::Maps&, const AttentionParams&, const Sm90ForwardConfig&, const CudaDevice&,
                        cudaStream_t);

template <class T, int32_t... index>
constexpr std::array<Launch, sizeof...(index)> launches(std::integer_sequence<int32_t, index...>) {
  return {&launch_sm90_attention_fwd_shape<T, index>...};
}

}  // namespace

void launch_sm90_attention_fwd(const AttentionParams& params, const Sm90ForwardConfig& config, const CudaDevice& device,
                               cudaStream_t stream) {
  using Shapes = std::make_integer_sequence<int32_t, sm90_forward_num_shapes>;
  static constexpr auto bf16 = launches<__nv_bfloat16>(Shapes{});
  static constexpr auto f16 = launches<__half>(Shapes{});
  const bool packed = params.packed != 0;
  const int64_t batch = params.num_sequences;
  sm90::Maps maps{};
  maps.q = make_tensor_map(params.q, config.dtype, {params.d_qk, params.tokens_q, params.h_q, batch, packed},
                           config.fold, config.shape.tile_m() / config.fold);
  // Without keys nothing is loaded: any map will do.
  maps.k = maps.v = maps.q;
  if (params.tokens_kv > 0) {
    maps.k = make_tensor_map(params.k, config.dtype, {params.d_qk, params.tokens_kv, params.h_kv, batch, packed}, 1,
                             config.shape.keys);
    maps.v = make_tensor_map(params.v, config.dtype, {params.d_v, params.tokens_kv, params.h_kv, batch, packed}, 1,
                             config.shape.keys);
  }
  maps.wrap = packed ? 1 << 30 : 0;
  maps.policy = config.keys_once ? sm90::kEvictFirst : sm90::kEvictNormal;
  const auto& by_shape = config.dtype == DType::bf16 ? bf16 : f16;
  by_shape[static_cast<size_t>(config.shape_index)](maps, params, config, device, stream);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    throw Error(Status::internal,
                cat("sm90_attention_fwd: the launch of ", config.grid, " blocks of ", config.shape.threads(),
                    " threads failed on ", device.name, ": ", cudaGetErrorString(status), "; chosen was: ", config));
  }
}

}  // namespace anymask
