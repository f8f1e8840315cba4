// What the selection kernel receives: rows of values to choose the largest of, in device memory.
#pragma once

#include <cstdint>

#include "cuda/plan/plan_data.h"
#include "mask/kinds/topk.h"

namespace anymask {

// Keys [begin, end) of a row.
struct TopkLimits {
  int32_t begin, end;
};

struct TopkPlane {
  const void* values;           // [rows][s_kv]
  int64_t stride_q, stride_kv;  // in elements
  int32_t s_kv, window;
  int32_t first_row, num_rows;  // among the rows of all planes
  TopkRow* rows;                // [num_rows] what is found: a pair that keeps these keys, not always the host's
  const TopkLimits* among;      // [num_rows] candidates; null: all keys
  const uint32_t* among_words;  // [num_rows][(s_kv + 31) / 32] candidates among those, a bit a key; null: all
  const TopkLimits* within;     // [num_rows] what the plan keeps of them; null: all
  int32_t first_m_block;        // of the plan
};

// What a mask keeps of each row, for the kernel: limits where it is a band, else words.
struct TopkCandidates {
  BuildPlane plane;    // its steps, among those of the plan's planes
  TopkLimits* limits;  // [s_q]; null: words
  uint32_t* words;     // [s_q][(s_kv + 31) / 32]
};

// Where the kept bits go: bit tiles of a plan whose rows were classified, each with mixed tiles alone, neighbours.
struct TopkTiles {
  const BuildDraft* drafts;  // [rows of tiles]; null: no bits are wanted
  const Run* draft_runs;
  uint32_t* bit_units;   // [bit tiles][tile_m / 64][64][4]
  uint32_t* unit_flags;  // [bit tiles], a byte a unit; zero before the launch
  int32_t tile_m;
};

struct TopkParams {
  const TopkPlane* planes;  // rows ascend
  int32_t num_planes, num_rows;
  int32_t rows_at_once;  // neighbours that one team takes, one after the other; a power of two
  int32_t segments;      // stretches of a row that each warp takes, one after the other
  TopkTiles tiles;
};

}  // namespace anymask
