#include "cli/device.h"

#include <anymask/anymask.h>

#include "cli/library.h"

namespace anymask::cli {

namespace {

// From the first element to the end of the last.
int64_t span_bytes(const Tensor& tensor) {
  if (tensor.strides.empty() || tensor.numel() == 0) return tensor.bytes();
  int64_t last = 0;
  for (size_t i = 0; i < tensor.shape.size(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
  return (last + 1) * size_of(tensor.type);
}

}  // namespace

std::shared_ptr<void> device_memory(int32_t device, size_t bytes) {
  void* memory = nullptr;
  check(anymask_cuda_malloc(device, bytes, &memory));
  return {memory, anymask_cuda_free};
}

Tensor to_device(const Tensor& host, int32_t device) {
  if (!host.present) return host;
  Tensor copy = host;
  const auto bytes = static_cast<size_t>(span_bytes(host));
  copy.cuda_device = device;
  copy.data = device_memory(device, bytes);
  if (bytes > 0) check(anymask_cuda_copy(copy.data.get(), host.data.get(), bytes));
  return copy;
}

void to_host(const Tensor& device, Tensor& host) {
  if (host.bytes() > 0) check(anymask_cuda_copy(host.data.get(), device.data.get(), static_cast<size_t>(host.bytes())));
}

}  // namespace anymask::cli
