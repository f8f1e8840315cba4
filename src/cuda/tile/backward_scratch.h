// What the portable backward keeps between its kernels, beside the plans: pointers into the caller's workspace. Plain
// data, passed by value.
#pragma once

#include <cstdint>

namespace anymask {

struct BackwardScratch {
  int32_t aligned;    // 1: every row of every tensor begins at a multiple of 16 bytes
  int32_t natural;    // 1: scores have a softcap, a bias or ALiBi, and row_lse is in natural units
  int64_t rows;       // query rows over all sequences: tokens_q of each batch entry, or of the packed tensor
  int32_t* counters;  // [2]: items taken by the dK/dV kernel and by the dQ kernel

  // One pass: dQ / scale in fp32. Each query head has blocks of 16 rows, [head_dim / 8] fragments a block, in the order
  // of the accumulators that are added to it; a sequence starts at block (q_begin + batch * tokens_q) / 16 + sequence,
  // so that no two share one. Null: two passes.
  float* dq_sum;
  int64_t dq_stride;  // floats of a head

  // dK and dV of each query head, where a group's heads are separate items: [h_q][keys over all][head_dim] fp32. Null:
  // the kernel writes dk and dv itself.
  float *dk_sum, *dv_sum;
  int64_t kv_stride;  // floats of a head

  // [h_q][dsinks_blocks]: what each block of rows adds to dsinks. Null: not wanted.
  float* dsinks_sum;
  int32_t dsinks_blocks;

  // dbias. Broadcast over rows, heads or batch it is summed in fixed point, in dbias_shape without gaps: integers add
  // up to the same whatever the order. One is worth 2^-*dbias_exponent. dbias_sum null: pairs are stored as they come.
  int64_t dbias_shape[4];
  unsigned long long* dbias_sum;
  uint32_t* dbias_bounds;  // [3], as bits of floats: largest |dout|^2 and |v|^2 of a row, largest |dlse|
  int32_t* dbias_exponent;
};

}  // namespace anymask
