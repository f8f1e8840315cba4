// How many blocks merge: enough for every multiprocessor to read pieces, few enough that an unsplit plan costs little.
#include "cuda/launch/combine.h"

#include <algorithm>

#include "core/error.h"
#include "cuda/kernels/combine.cuh"

namespace anymask {

void launch_combine(const AttentionParams& params, DType dtype, const CudaDevice& device, cudaStream_t stream) {
  if (!params.partial_out) return;
  // 16 rows a block: 8 warps take two each.
  const dim3 grid(static_cast<unsigned>(device.num_sms), static_cast<unsigned>(std::max(params.plan.tile_m / 16, 1)));
  if (dtype == DType::bf16) {
    combine<__nv_bfloat16><<<grid, 32 * combine_warps, 0, stream>>>(params);
  } else {
    combine<__half><<<grid, 32 * combine_warps, 0, stream>>>(params);
  }
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    throw Error(Status::internal, cat("combine: the launch of ", grid.x, " x ", grid.y, " blocks failed on ",
                                      device.name, ": ", cudaGetErrorString(status)));
  }
}

}  // namespace anymask
