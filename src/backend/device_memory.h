// Device memory, and the rates of a device, for programs that have no CUDA runtime of their own: the command line,
// tests. Blocking, errors thrown.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anymask {

void* device_allocate(int32_t device, size_t bytes);
void device_free(void* memory) noexcept;
void device_copy(void* to, const void* from, size_t bytes);  // between host and device, in any direction
void device_wait(int32_t device);                            // for all work; an error of that work is thrown here

// What the card itself does, measured now: bf16 products of random numbers by its best matrix instruction, from on-chip
// memory (FLOP/s), and a copy inside its memory (bytes read and written a second). Allocates what it measures with.
struct DevicePeak {
  double flops = 0, copy_bytes = 0;
};
DevicePeak device_peak(int32_t device);

}  // namespace anymask
