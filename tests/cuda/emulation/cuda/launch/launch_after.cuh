// Stands in for src/cuda/launch/launch_after.cuh: launches on the emulator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/emulation/launches.h"
#include "cuda/launch/device.h"

namespace anymask {

extern unsigned char memory[emulation::sm80_shared_bytes];

template <auto kernel, class... Arguments>
cudaError_t launch_after(dim3 blocks, int32_t threads, size_t shared_bytes, const CudaDevice&, cudaStream_t,
                         const Arguments&... arguments) {
  emulation::run({.grid = blocks,
                  .threads = static_cast<unsigned>(threads),
                  .shared = {memory, shared_bytes},
                  .schedule = emulation::schedule},
                 [&] { kernel(arguments...); });
  return cudaSuccess;
}

}  // namespace anymask
