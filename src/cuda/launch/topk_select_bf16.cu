// topk_select in bf16.
#include "cuda/launch/topk_select_instance.cuh"

namespace anymask {

template <>
void launch_topk_select_of<DType::bf16>(const TopkParams& params, const TopkSelectConfig& config,
                                        const CudaDevice& device, cudaStream_t stream) {
  launch_topk_select_keys<topk::KeysBf16>(params, config, device, stream);
}

}  // namespace anymask
