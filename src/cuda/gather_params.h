// What the kernels around a call over gathered keys receive: what is selected, and where its keys go. In device memory
// but for GatherParams itself. `Gathered` is the axis of the kept keys.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/topk_params.h"

namespace anymask {

// Places of a list that are sorted on chip.
inline constexpr int32_t most_columns = 8192;

// A list of keys that rows of a plane see: all rows, or a block of them.
struct GatherPlane {
  int32_t source, first_row;  // plane of the mask, and its row that is the first here
  int32_t* keys;              // [width], ascending; `*count` of them, the rest is not written
  int32_t* count;
  int32_t* slots;           // [s_kv]: where a key stands among them, -1 where it is dropped; null: nobody asks
  int64_t *begins, *ends;   // [lines]: of a row, on the gathered axis, what bands beside the selection leave; null: all
  int32_t width, lines;     // lines: rows, or 1 where all see the same
  int32_t infinity, bytes;  // of the selecting bias: its code, and an element's size

  // Where rows choose for themselves: the list holds whatever some of them keep. Null otherwise.
  int64_t *among_begins, *among_ends;  // [lines], on the gathered axis: the row's candidates
  void* values;                        // [width]: of the selecting bias
  int64_t *enters, *leaves;            // [width]: rows [enters, leaves) keep the place; null: its values say it
  TopkLimits* limits;                  // [2]: candidates of all of the rows, and of any
  TopkRow* cut;                        // what is selected among the former
};

// A sequence of the call, and its gathered ones.
struct GatherSource {
  int64_t batch, kv_begin;  // of k and v
  int32_t s_kv, first, count, unused;
};
struct GatherSequence {
  int64_t batch, begin;   // of the gathered k and v
  int32_t source, width;  // places on the gathered axis: those beyond a plane's count hold zeros
};

struct GatherParams {
  const TopkPlane* selected;        // [planes of the mask]
  TopkPlane* chosen;                // [num_planes], a row each that a list is made by: `selected`, or made of it
  const GatherPlane* planes;        // [num_planes]
  const GatherSource* sources;      // [num_sources]
  const GatherSequence* sequences;  // [num_sequences]
  const int32_t* plane_of;          // [num_sequences][plane_heads]
  int32_t num_planes, num_sources, num_sequences;
  int32_t plane_heads;  // 1, or h_q
  int32_t h_q, h_kv;
  int32_t heads;             // of gathered K and V: h_kv, or h_q where the heads of a group keep different keys
  int32_t d_qk, d_v, width;  // width: the largest
  int32_t stretch;           // keys that a block lists, a multiple of list_keys
  int32_t aligned;           // rows of k, v, dk and dv are whole pieces of 16 bytes
  CudaTensor k, v, gathered_k, gathered_v;
  CudaBias bias, gathered_bias;  // gathered: [num_sequences][bias_heads][width], no group of its own
  int32_t bias_heads;

  // Backward.
  CudaTensor dk, dv, gathered_dk, gathered_dv;
  CudaBias dbias, gathered_dbias;  // gathered: fp32
  int64_t dbias_shape[4];          // of dbias, whose third axis is 1
  CudaPerHead dsinks;              // where calls sum their own; null: one call writes them itself
  const float* call_dsinks;        // [num_calls][h_q]
  int32_t num_calls;
  DType dtype;  // of dk and dv
};

}  // namespace anymask
