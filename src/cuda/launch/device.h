// The devices of this machine: found once, described once; errors of the CUDA runtime as the library's own.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>

#include "core/error.h"
#include "cuda/launch/kernel.h"

namespace anymask {

// Whether a CUDA device can be used, and if not, why and what to do. Asked once; costs nothing after that.
Support cuda_available();

int32_t cuda_device_count();
// Throws where there is no such device. The reference stays valid.
const CudaDevice& cuda_device(int32_t index);

// Throws Error for anything but success: "cuda: <doing>: <what the runtime says>".
void check_cuda(cudaError_t status, const char* doing);

// Makes a device current for a scope, and the former one again after it.
class DeviceScope {
 public:
  explicit DeviceScope(int32_t index);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0, now_ = 0;
};

// A kernel may use more than 48 KB of shared memory only after the runtime was told, once for each kernel and device.
// `carveout`: how much of a multiprocessor's memory should be shared memory while it runs.
template <auto kernel>
void allow_shared_memory(size_t bytes, const CudaDevice& device,
                         cudaSharedCarveout carveout = cudaSharedmemCarveoutDefault) {
  constexpr int32_t max_devices = 64;
  static std::once_flag told[max_devices];
  const auto set = [](cudaFuncAttribute attribute, int value) {
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value),
               "reserving shared memory");
  };
  const auto tell = [&] {
    set(cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (carveout != cudaSharedmemCarveoutDefault) set(cudaFuncAttributePreferredSharedMemoryCarveout, carveout);
  };
  if (device.index >= max_devices) return tell();
  std::call_once(told[device.index], tell);
}

}  // namespace anymask
