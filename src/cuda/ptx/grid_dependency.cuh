// Programmatic dependent launch: a kernel may be set up while the one before it in the stream still runs.
#pragma once

namespace anymask::ptx {

// Lets the next kernel be set up, and waits for the results of the one before. Nothing where the launch did not ask for
// it, and before Hopper.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace anymask::ptx
