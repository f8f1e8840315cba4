// topk_select in f16.
#include "cuda/launch/topk_select_instance.cuh"

namespace anymask {

template <>
void launch_topk_select_of<DType::f16>(const TopkParams& params, const TopkSelectConfig& config,
                                       const CudaDevice& device, cudaStream_t stream) {
  launch_topk_select_keys<topk::KeysF16>(params, config, device, stream);
}

}  // namespace anymask
