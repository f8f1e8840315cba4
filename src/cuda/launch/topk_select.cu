// Which type a configuration is of.
#include "cuda/launch/topk_select.h"

namespace anymask {

void launch_topk_select(TopkParams params, const TopkSelectConfig& config, const CudaDevice& device,
                        cudaStream_t stream) {
  if (params.num_rows == 0) return;
  params.rows_at_once = config.rows_at_once;
  params.segments = config.segments;
  if (config.dtype == DType::f32) {
    launch_topk_select_of<DType::f32>(params, config, device, stream);
  } else if (config.dtype == DType::bf16) {
    launch_topk_select_of<DType::bf16>(params, config, device, stream);
  } else {
    launch_topk_select_of<DType::f16>(params, config, device, stream);
  }
}

}  // namespace anymask
