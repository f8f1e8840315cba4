// Device memory for programs that have no CUDA runtime of their own: the command line, tests. Blocking, errors thrown.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anymask {

void* device_allocate(int32_t device, size_t bytes);
void device_free(void* memory) noexcept;
void device_copy(void* to, const void* from, size_t bytes);  // between host and device, in any direction
void device_wait(int32_t device);                            // for all work; an error of that work is thrown here

}  // namespace anymask
