// What sm90_attention_fwd decides from shapes and the device, on the host: whether it serves a call, and how. No CUDA.
#pragma once

#include <cstdint>
#include <ostream>

#include "backend/backend.h"
#include "core/problem.h"
#include "cuda/config/mask_facts.h"
#include "cuda/launch/kernel.h"

namespace anymask {

// A compiled shape of the kernel. Head dims up to these; the rest is zeros in shared memory.
struct Sm90ForwardShape {
  int32_t d_qk, d_v;
  int32_t warpgroups;      // of 64 rows
  int32_t keys;            // of a step: 128, or 64 where O takes the registers
  int32_t stages;          // of K and V in shared memory
  int32_t q_slots;         // 2: the next item's Q is loaded while this one is computed
  bool long_rows = false;  // for rows that keep thousands of keys, and scores that are not modified; else passed over
  constexpr int32_t tile_m() const { return 64 * warpgroups; }
  // Whether it evaluates bands itself: three warpgroups leave no registers for that.
  constexpr bool bands() const { return warpgroups == 2; }
  constexpr int32_t threads() const { return 128 * (1 + warpgroups); }
  // Q, K, V, mask bits and rows of bands; barriers and tile facts take less than 1 KB more.
  constexpr int32_t tensor_bytes() const {
    const int32_t qk = (d_qk + 63) / 64 * 64, v = (d_v + 63) / 64 * 64;  // in blocks of 64
    return 2 * (q_slots * tile_m() * qk + stages * keys * (qk + v)) + stages * warpgroups * 1024 +
           (bands() ? 4 * 8 * tile_m() : 0);
  }
};

// Ascending: the first one that holds both head dims is taken, or the next where that is for long rows and rows are.
inline constexpr Sm90ForwardShape sm90_forward_shapes[] = {
    {.d_qk = 64, .d_v = 64, .warpgroups = 3, .keys = 128, .stages = 4, .q_slots = 2},
    {.d_qk = 96, .d_v = 96, .warpgroups = 2, .keys = 128, .stages = 2, .q_slots = 2},
    {.d_qk = 96, .d_v = 96, .warpgroups = 3, .keys = 128, .stages = 2, .q_slots = 1, .long_rows = true},
    {.d_qk = 128, .d_v = 128, .warpgroups = 2, .keys = 128, .stages = 2, .q_slots = 2},
    {.d_qk = 128, .d_v = 128, .warpgroups = 3, .keys = 128, .stages = 2, .q_slots = 1, .long_rows = true},
    {.d_qk = 192, .d_v = 128, .warpgroups = 2, .keys = 128, .stages = 2, .q_slots = 1},
    {.d_qk = 256, .d_v = 256, .warpgroups = 2, .keys = 64, .stages = 2, .q_slots = 1},
};
inline constexpr int32_t sm90_forward_num_shapes = sizeof(sm90_forward_shapes) / sizeof(sm90_forward_shapes[0]);
// The shape as compiled for modified scores: three warpgroups leave a thread enough registers to change scores in
// only where head dims are small.
constexpr Sm90ForwardShape sm90_forward_shape(int32_t index, bool modified) {
  Sm90ForwardShape shape = sm90_forward_shapes[index];
  if (modified && shape.d_qk > 64 && shape.warpgroups == 3) shape.warpgroups = 2;
  return shape;
}

struct Sm90ForwardConfig {
  DType dtype = DType::bf16;
  int32_t shape_index = 0;
  Sm90ForwardShape shape{};
  int64_t long_keys = 0;    // of the mask's rows, see MaskFacts
  bool modified = false;    // softcap, bias, ALiBi, or a scale that is not positive
  bool keys_once = false;   // no sequence has more than one row of tiles: K and V pass through the cache
  int32_t fold = 1;         // query heads of a group in the rows of one tile (cuda/fold.h)
  int32_t grid = 1;         // persistent blocks, one a multiprocessor
  int32_t parallelism = 0;  // for the plan: blocks that long rows are split for; 0: rows stay whole
};
std::ostream& operator<<(std::ostream& out, const Sm90ForwardConfig& config);

// Why not, when no and asked for: the portable kernel then takes the call.
Support sm90_attention_fwd_supports(const AttentionProblem& problem, const CudaDevice& device, bool with_reason);
Sm90ForwardConfig choose_sm90_attention_fwd(const AttentionProblem& problem, const MaskFacts& mask,
                                            const CudaDevice& device);

}  // namespace anymask
