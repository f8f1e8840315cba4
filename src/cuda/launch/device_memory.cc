// The blocking device memory of backend/device_memory.h, on the CUDA runtime.
#include "backend/device_memory.h"

#include <cuda_runtime_api.h>

#include "cuda/launch/device.h"

namespace anymask {

void* device_allocate(int32_t device, size_t bytes) {
  const DeviceScope scope(cuda_device(device).index);
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "allocating device memory");
  return memory;
}

void device_free(void* memory) noexcept { static_cast<void>(cudaFree(memory)); }

void device_copy(void* to, const void* from, size_t bytes) {
  const Support support = cuda_available();
  if (!support.yes) fail_unsupported("cuda: ", support.reason);
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying");
}

void device_wait(int32_t device) {
  const DeviceScope scope(cuda_device(device).index);
  check_cuda(cudaDeviceSynchronize(), "waiting for the device");
}

}  // namespace anymask
