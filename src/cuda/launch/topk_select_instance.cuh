// The launches of topk_select in one type.
#pragma once

#include "cuda/launch/device.h"
#include "cuda/launch/topk_select_choice.cuh"

namespace anymask {

template <class Keys>
void launch_topk_select_keys(const TopkParams& params, const TopkSelectConfig& config, const CudaDevice& device,
                             cudaStream_t stream) {
  topk::choose_kernel<Keys>(config, [&]<class K, class S>() {
    constexpr auto kernel = topk::topk_select<K, S::chunks, S::warps, S::cluster, S::streamed>;
    constexpr size_t bytes = sizeof(topk::Shared<S::chunks>);
    allow_shared_memory<kernel>(bytes, device);
    cudaLaunchAttribute together{};
    together.id = cudaLaunchAttributeClusterDimension;
    together.val.clusterDim.x = static_cast<unsigned>(config.cluster);
    together.val.clusterDim.y = together.val.clusterDim.z = 1;
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(static_cast<unsigned>(config.blocks));
    launch.blockDim = dim3(32 * topk::block_warps);
    launch.dynamicSmemBytes = bytes;
    launch.stream = stream;
    launch.attrs = &together;
    launch.numAttrs = S::cluster ? 1 : 0;
    check_cuda(cudaLaunchKernelEx(&launch, kernel, params), "selecting the largest of rows");
  });
}

}  // namespace anymask
