// The vector targets compiled into the library, and forcing one for tests.
#pragma once

#include <string>
#include <vector>

namespace anymask {

// Names of the targets compiled in and usable on this processor, best first ("AVX3", "AVX2", ...). "AVX3_BF16" stands
// before "AVX3" where the processor multiplies bf16 pairs itself: AVX3 with that instruction.
std::vector<std::string> cpu_targets();

// The one calls use now.
std::string cpu_target();

// From now on every call of the process uses `name`; "" returns to the best. Throws Error when it is not among
// cpu_targets(). Not to be called while another thread computes.
void force_cpu_target(const std::string& name);

// Whether bf16 products may use the bf16 dot instruction: the processor has it and no other target is forced.
bool use_bf16_dot();

}  // namespace anymask
