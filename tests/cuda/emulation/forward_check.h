// How a forward kernel on the emulator is tested: cases, the memory around a launch, the comparison with the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cpu/backward_case.h"
#include "cuda/attention_params.h"

namespace anymask::emulation {

// Of which the tensors' head dims are replaced by those under test.
struct ForwardCase {
  cases::AttentionCase attention;
  int32_t fold = 1, pieces = 1;
  double q = 1;      // q's deviation: large scores move the reference of the softmax again and again
  double scale = 0;  // 0: the usual one
  test::Layout layout = test::Layout::token_major;
  std::optional<Mask> mask = std::nullopt;  // instead of the case's
  bool band = false;                        // the mask as a band in the parameters, not as a plan
  int32_t blocks = 0;                       // that a band's rows are cut for: into `pieces`, of 128 rows a tile
};

// What a pipeline can go wrong at: many tiles, rows of tiles that keep nothing, items of one tile beside long ones,
// tiles that end past the last key, pieces, folded heads, packed sequences, every modifier.
const std::vector<ForwardCase>& forward_cases();

// Bands of every kind, alone and together, where they are cut and where they keep nothing.
const std::vector<ForwardCase>& band_cases();
// Bands whose rows are cut into pieces, of one length and of several.
const std::vector<ForwardCase>& cut_band_cases();
// A random expression over kinds that make bands, random lengths and heads.
ForwardCase random_band_case(uint64_t seed);

// Calls `launch` with what launch/forward_call.cc hands a launcher, on the host's plan or the band.
void launch_forward(const AttentionProblem& problem, const Mask& mask, const ForwardCase& c, int32_t tile_m,
                    const std::function<void(const AttentionParams&)>& launch);

// A kernel's forward of one call, with its own configuration.
using Forward = std::function<void(const AttentionProblem&, const Mask&, const ForwardCase&)>;

// On both schedules, from outputs that begin as NaN. Bound: twice the naive computation's error, and what the type's
// last bit is worth next to 1, twice. Where the mask is a band, as a band too: the same bits as with a plan. Says
// whether it was.
bool expect_close(const ForwardCase& c, DType dtype, const Forward& forward);

}  // namespace anymask::emulation
