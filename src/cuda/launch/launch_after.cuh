// Launches a kernel that is set up while the one before it in the stream still runs, and then waits for it by itself
// (cuda/ptx/grid_dependency.cuh): programmatic dependent launch.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <type_traits>

#include "cuda/launch/device.h"

namespace anymask {

// Whether the code that runs on this device waits for the kernel before it: only what was compiled for 9.0 and later
// can. A device of 9.0 or later may run code for 8.0, compiled anew from PTX.
template <auto kernel>
bool waits_by_itself(const CudaDevice& device) {
  constexpr int32_t max_devices = 64;
  static std::once_flag asked[max_devices];
  static bool waits[max_devices];
  if (device.major < 9 || device.index >= max_devices) return false;
  std::call_once(asked[device.index], [&device] {
    cudaFuncAttributes attributes{};
    check_cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), "asking about a kernel");
    waits[device.index] = attributes.ptxVersion >= 90;
  });
  return waits[device.index];
}

// `kernel` calls ptx::wait_for_previous() before it touches memory. Arguments are of its parameters' very types: the
// runtime reads them where they lie, and kilobytes of parameters are copied once. `cluster` blocks are one cluster; 0:
// the kernel knows none.
template <auto kernel, class... Arguments>
cudaError_t launch_clusters_after(int32_t cluster, dim3 blocks, int32_t threads, size_t shared_bytes,
                                  const CudaDevice& device, cudaStream_t stream, const Arguments&... arguments) {
  static_assert(std::is_same_v<decltype(kernel), void (*)(Arguments...)> ||
                std::is_same_v<decltype(kernel), void (*const)(Arguments...)>);
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (waits_by_itself<kernel>(device)) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 0) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(cluster);
    attributes[count].val.clusterDim.y = attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers);
}
template <auto kernel, class... Arguments>
cudaError_t launch_after(dim3 blocks, int32_t threads, size_t shared_bytes, const CudaDevice& device,
                         cudaStream_t stream, const Arguments&... arguments) {
  return launch_clusters_after<kernel>(0, blocks, threads, shared_bytes, device, stream, arguments...);
}

}  // namespace anymask
