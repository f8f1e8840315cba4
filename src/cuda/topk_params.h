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

// Keys of a row, as words: four for each 128 keys, of a row of a fragment unit (cuda/attention_params.h).
ANYMASK_HOST_DEVICE int64_t topk_line_words(int64_t s_kv) { return (s_kv + 127) / 128 * 4; }

// What of each row counts: the keys of an interval, and of those the ones whose bit is set. Null: all.
struct TopkKeys {
  const TopkLimits* limits;  // [rows]
  const uint32_t* words;     // [rows][topk_line_words(s_kv)], 16-byte aligned; bits beyond s_kv say nothing
  int32_t step;              // 1, or 0: all rows are like the first
};

struct TopkPlane {
  const void* values;           // [rows][s_kv]
  int64_t stride_q, stride_kv;  // in elements
  int32_t s_kv, window;
  int32_t first_row, num_rows;  // among the rows of all planes
  TopkRow* rows;    // [num_rows] what is found: a pair that keeps these keys, not always the host's; null: not wanted
  TopkKeys among;   // candidates
  TopkKeys within;  // what the plan keeps of those that are found
  int32_t first_m_block;  // of the plan
};

// What a mask keeps of each row, for the kernel: limits where it is a band, else words.
struct TopkCandidates {
  BuildPlane plane;    // its steps, among those of the plan's planes
  TopkLimits* limits;  // [s_q]; null: words
  uint32_t* words;     // [s_q][topk_line_words(s_kv)]
};

// Where the kept bits go: bit tiles of a plan whose rows were classified, each with mixed tiles alone, neighbours.
struct TopkTiles {
  const BuildDraft* drafts;  // [rows of tiles]; null: no bits are wanted
  const Run* draft_runs;
  uint32_t* bit_units;   // [bit tiles][tile_m / 64][64][4]
  uint32_t* unit_flags;  // [bit tiles], a byte a unit; zero before the launch
  int32_t tile_m;
  Fold fold;  // of its rows
};

struct TopkParams {
  const TopkPlane* planes;  // rows ascend
  int32_t num_planes, num_rows;
  int32_t rows_at_once;  // neighbours that one team takes, one after the other; a power of two
  int32_t segments;      // stretches of a row that each warp takes, one after the other
  TopkTiles tiles;
};

}  // namespace anymask
