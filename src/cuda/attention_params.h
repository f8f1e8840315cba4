// What a CUDA kernel receives, by value: every pointer with its shape and strides, and the plan in device memory or the
// band that makes one unnecessary.
// Plain data, the same on host and device; at most 4 KB with a kernel's other parameters.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "cuda/band_params.h"
#include "cuda/fold.h"
#include "plan/tile_plan.h"

namespace anymask {

// A batch entry, or a stretch of a packed tensor.
struct CudaSequence {
  int64_t batch;              // index along the batch strides (0 when packed)
  int64_t q_begin, kv_begin;  // first token along the token strides
  int32_t s_q, s_kv;
};

// [batch, token, head, dim], dim contiguous. Strides in elements.
struct CudaTensor {
  void* data;
  int64_t stride_b, stride_s, stride_h;
};
// [batch, head, row] fp32; packed: [head, token], stride_b 0, row counted from the sequence's q_begin.
struct CudaRowStat {
  float* data;  // null: not wanted, or not given
  int64_t stride_b, stride_h, stride_q;
};
// [b | 1, heads | 1, s_q | 1, s_kv]; an axis of size 1 has stride 0; query head h reads bias head h / group. The batch
// axis counts sequences (packed or not), rows and keys are counted inside the sequence.
struct CudaBias {
  void* data;  // null: none
  int64_t stride_b, stride_h, stride_q, stride_kv;
  int32_t group;
  DType dtype;  // f32, bf16 or f16
};
// [b | 1, h_q]; the batch axis counts sequences.
struct CudaPerHead {
  void* data;  // null: none
  int64_t stride_b, stride_h;
  DType dtype;
};

// One piece of work: a row of tiles (or a stretch of it) of one head of one sequence. Rows are queries in the forward
// plan, keys in the transposed one. `head` counts query heads in the forward plan, CudaPlan::fold at a time, and kv
// heads or query heads in the transposed one, as the kernel's own contract says.
struct CudaItem {
  int32_t sequence, head, m_block;
  int32_t run_begin, run_end;  // absolute, into CudaPlan::runs; equal: nothing is kept, outputs still get written
  int32_t n_begin, n_end;      // clips the first run's begin and the last run's end, in tiles
  int32_t split, num_splits;   // this piece of that many of the row
  int32_t partial;             // first slot of the row's partial results in the workspace, when num_splits > 1
};

// The TilePlan of plan/tile_plan.h in device memory, with bits in fragment order.
//
// tile_n is plan_tile_n. A bit tile of tile_m x 128 is tile_m / 64 units of 64 rows x 128 columns (1 KB, 256 words).
// Word (row r, quarter c) of a unit is word r * 4 + c; its bit 2 g + j says whether (row r, column 8 g + 2 c + j) is
// kept: what lane l of an mma or wgmma accumulator needs for its row is the one word c = l % 4, aligned. The lower 16
// bits are columns 0..63, the upper 16 columns 64..127. Bits beyond the plane's edges are 0. FULL tiles at the edge
// reach beyond s_kv (or s_q): the kernel clips those columns itself. Where heads are folded into rows, each token's
// word stands in the rows of all its heads.
inline constexpr int32_t plan_tile_n = 128;
struct CudaPlan {
  int32_t tile_m;
  Fold fold;
  const int32_t* num_items;  // one number, in device memory
  const CudaItem* items;     // longest first
  const Run* runs;
  const uint32_t* bit_units;   // [bit tiles][tile_m / 64][64][4]
  const uint32_t* tile_kinds;  // [bit tiles]: two bits a unit, lowest first: 0 it keeps nothing, 1 everything, 2 look
};

// Who takes the next item: see tile/item_source.cuh. In device memory, of any contents.
struct CudaTickets {
  uint64_t launch;
  int32_t taken, unused;
};

// 64 rows of a row of tiles that is cut: pieces of them that are there, and rows somebody took to merge.
struct CudaArrivals {
  int32_t pieces, rows;
};
// Whether the arrivals of this launch are zero: see tile/merge_pieces.cuh. In device memory, of any contents.
struct CudaArrivalsOpen {
  uint64_t launch;
  int32_t seen, unused;
};

struct AttentionParams {
  int32_t h_q, h_kv, group, d_qk, d_v;
  int32_t num_sequences;
  int32_t packed;               // 1: tensors have no batch axis (stride_b 0)
  int64_t tokens_q, tokens_kv;  // along the token axis: s_q, or the total of a packed tensor
  const CudaSequence*
      sequences;  // [num_sequences], or null: batch entries of tokens_q and tokens_kv, or band.sequences

  float softmax_scale, softcap;  // softcap 0: none
  CudaTensor q, k, v, out;
  CudaRowStat lse;
  CudaBias bias;
  CudaPerHead alibi, sinks;
  CudaPlan plan;
  CudaBand band;  // present: instead of the plan

  // Split rows: fp32 pieces, merged by lse. [slots][tile_m][d_v] and [slots][tile_m]; null when nothing is split.
  float* partial_out;
  float* partial_lse;
  CudaArrivals* arrivals;  // [slots][tile_m / 64], used at the first slot of a row of tiles
  CudaArrivalsOpen* arrivals_open;
  int32_t slots;
  CudaTickets* tickets;  // forward
  uint64_t launch;       // this launch's own number, never 0

  // Backward.
  int32_t* work_counter;  // zero before the launch; items are taken from it by atomic increments
  CudaTensor dout, dq, dk, dv;
  CudaRowStat dlse;
  CudaBias dbias;      // fp32 or the bias's type
  CudaPerHead dsinks;  // fp32 or the sinks' type
  // Facts of a row, [h_q][stat_stride] from row q_begin + batch * tokens_q + row on. row_lse is lse * log2(e), or lse
  // itself where a softcap, a bias or ALiBi makes scores natural; +inf where the row keeps nothing.
  float* row_lse;
  float* delta;  // rowsum(dout * out) - dlse
  int64_t stat_stride;
};

}  // namespace anymask
