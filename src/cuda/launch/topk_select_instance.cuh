// The launches of topk_select in one type.
#pragma once

#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/topk_select_choice.cuh"

namespace anymask {

template <class Keys>
void launch_topk_select_keys(const TopkParams& params, const TopkSelectConfig& config, const CudaDevice& device,
                             cudaStream_t stream) {
  topk::choose_kernel<Keys>(config, [&]<class K, class S>() {
    constexpr auto kernel = topk::topk_select<K, S::chunks, S::warps, S::cluster, S::streamed>;
    constexpr size_t bytes = sizeof(topk::Shared<S::chunks>);
    allow_shared_memory<kernel>(bytes, device);
    cudaLaunchAttribute attributes[2]{};
    unsigned count = 0;
    if (waits_by_itself<kernel>(device)) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (S::cluster) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count].val.clusterDim.x = static_cast<unsigned>(config.cluster);
      attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
      ++count;
    }
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(static_cast<unsigned>(config.blocks));
    launch.blockDim = dim3(32 * topk::block_warps);
    launch.dynamicSmemBytes = bytes;
    launch.stream = stream;
    launch.attrs = attributes;
    launch.numAttrs = count;
    check_cuda(cudaLaunchKernelEx(&launch, kernel, params), "selecting the largest of rows");
  });
}

}  // namespace anymask
