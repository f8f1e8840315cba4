// Launches that tests make, and what they share.
#pragma once

#include "cuda/attention_params.h"
#include "cuda/emulation/emulator.h"

namespace anymask::emulation {

inline constexpr int sm90_shared_bytes = 232448;  // of a block of Hopper
inline constexpr int sm80_shared_bytes = 166912;  // and of Ampere (8.0)

inline Schedule schedule = Schedule::early;  // of the launches to come

template <class T>  // __nv_bfloat16 or __half
void run_combine(const AttentionParams& params);

}  // namespace anymask::emulation
