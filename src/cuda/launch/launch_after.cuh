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
// runtime reads them where they lie, and kilobytes of parameters are copied once.
template <auto kernel, class... Arguments>
cudaError_t launch_after(dim3 blocks, int32_t threads, size_t shared_bytes, const CudaDevice& device,
                         cudaStream_t stream, const Arguments&... arguments) {
  static_assert(std::is_same_v<decltype(kernel), void (*)(Arguments...)> ||
                std::is_same_v<decltype(kernel), void (*const)(Arguments...)>);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = waits_by_itself<kernel>(device) ? 1 : 0;
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers);
}

}  // namespace anymask
