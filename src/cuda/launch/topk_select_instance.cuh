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
    check_cuda(
        launch_clusters_after<kernel>(S::cluster ? config.cluster : 0, dim3(static_cast<unsigned>(config.blocks)),
                                      32 * topk::block_warps, bytes, device, stream, params),
        "selecting the largest of rows");
  });
}

}  // namespace anymask
