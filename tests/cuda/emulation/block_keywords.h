// What kernels that build plans use beside device_keywords.h: shared variables of their own, values passed up a warp,
// 64 bits at a time, votes of a block.
#pragma once

#include "cuda/emulation/device_keywords.h"

// Blocks run one after another.
#undef __shared__
#define __shared__ static

namespace anymask::emulation {

struct WideShuffle {
  int64_t value;
  int lanes;
  int64_t result;
};
template <bool up>
int64_t wide_shuffle(const char* name, int64_t value, int lanes) {
  WideShuffle s{value, lanes, 0};
  collective(name, &s, [](Lanes all) {
    for (int l = 0; l < 32; ++l) {
      auto* const mine = static_cast<WideShuffle*>(all[l]);
      const int source = !up ? l ^ mine->lanes : l >= mine->lanes ? l - mine->lanes : l;
      mine->result = static_cast<const WideShuffle*>(all[source])->value;
    }
  });
  return s.result;
}

}  // namespace anymask::emulation

inline int64_t __shfl_up_sync(unsigned, int64_t value, int lanes) {
  return anymask::emulation::wide_shuffle<true>("__shfl_up_sync", value, lanes);
}
inline int64_t __shfl_xor_sync(unsigned, int64_t value, int lanes) {
  return anymask::emulation::wide_shuffle<false>("__shfl_xor_sync", value, lanes);
}
inline int __syncthreads_or(int vote) {
  static int votes;
  __syncthreads();  // the readers of the last vote are done
  if (threadIdx.x == 0) votes = 0;
  __syncthreads();
  votes |= vote;
  __syncthreads();
  return votes;
}
[[noreturn]] inline void __trap() { throw anymask::emulation::Fault("__trap"); }
