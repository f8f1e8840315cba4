// Tensors in CUDA device memory.
#pragma once

#include "cli/io/tensor.h"

namespace anymask::cli {

// A copy of a host tensor, strides and the bytes between its elements included. Absent stays absent.
Tensor to_device(const Tensor& host, int32_t device);
// Bytes of a contiguous device tensor, into a host tensor of its shape.
void to_host(const Tensor& device, Tensor& host);
std::shared_ptr<void> device_memory(int32_t device, size_t bytes);

}  // namespace anymask::cli
