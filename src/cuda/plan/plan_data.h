// What the kernels that build a plan read and write: plain data in device memory, the same on host and device.
//
// One upload holds the bound mask: a header, the planes, their steps and leaves, the arrays leaves point into, and how
// sequences and heads use the planes. A *pair* is a sequence and a head that items count: number sequence * heads +
// head. An *entry* is a run of `pairs_per_entry` pairs that share a plane: a sequence, or one head of it.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/plan/cuts.h"
#include "mask/leaf.h"
#include "mask/plane_steps.h"

namespace anymask {

struct BuildPlane {
  int64_t s_q, s_kv;
  int32_t m_blocks, n_blocks;
  int32_t first_row;  // among the rows of tiles of all planes
  int32_t uses;       // pairs
  int32_t first_step, num_steps;
  int32_t band;  // each row keeps one interval, and the intervals move forward
};

// Set to zero by the upload, added to by the kernels.
struct BuildCounters {
  uint64_t total_cost;  // of all items, in tenths of a tile
  uint32_t max_cost;    // of a row of tiles, likewise
  uint32_t bit_tiles, drafts, runs, pieces, slots;
};

struct BuildHeader {
  BuildCounters counters;
  int32_t tile_m, transposed;
  Fold fold;  // of rows that are queries: a tile's rows are fold.tokens(tile_m) rows of the plane
  int32_t num_planes, num_rows;
  int32_t pairs, heads, pairs_per_entry, group;  // group: pairs of one kv head, neighbours
  int32_t pairs_per_section;                     // 0: sections differ, see section_begin
  int32_t num_sections;
  int32_t parallelism;
  int32_t whole_items;  // before any row is cut
  int32_t max_slots, max_pieces;
  int32_t max_bit_tiles, max_runs, max_items;
};

// A row of tiles once it is classified: runs of FULL tiles, and of mixed ones, which hold bit tiles from bit_begin on.
struct BuildDraft {
  int32_t run_begin, num_runs, bit_begin;
};
// And once its runs are known.
struct BuildRow {
  int32_t run_begin, num_runs;
  int32_t full_tiles, partial_tiles;
};
// Whose bits a bit tile holds.
struct MixedTile {
  int32_t row, n;
};
// What was found in a unit of 64 rows x 128 columns: a kept pair, a dropped one, and one that lies in the plane.
enum UnitFlags : uint32_t { unit_any = 1, unit_cut = 2, unit_cut_inside = 4 };

// A row of tiles of a plane, or a stretch of it: an item without its sequence and head.
struct BuildPiece {
  int32_t m_block, run_begin, run_end, n_begin, n_end, split, num_splits;
  int32_t slot;           // first slot of the row among those of one use of the plane
  int32_t weight, order;  // class of cost, 0 the costliest; number within the plane's class
};

inline constexpr int cost_classes = 256;

struct BuildPieces {  // of a plane
  int32_t piece_begin, num_pieces;
  int32_t slot_begin, slots;    // of all its uses; of one
  int32_t count[cost_classes];  // pieces of each class
};

// A leaf whose arrays lie on the device: what they are before plan_prepare.cuh makes of them what the leaf reads.
struct MadeLeaf {
  int32_t leaf;
  LeafSource sources[2];
};

struct TopkPlane;       // topk_params.h
struct TopkCandidates;  // likewise

// Everything in device memory.
struct PlanBuild {
  BuildHeader* header;
  const BuildPlane* planes;     // [num_planes]
  const PlaneStep* steps;       // leaves are numbered over all planes; skips count from the plane's first step
  const LeafArgs* leaves;       // data: addresses in device memory
  const MadeLeaf* made;         // [num_made]
  const TopkPlane* selections;  // rows to select before leaves are evaluated; null: none
  const TopkCandidates* candidates;
  const int32_t* plane_of;       // [entries]; null: all use plane 0
  const int32_t* uses_before;    // [entries]: earlier entries with the same plane; null likewise
  const int32_t* section_begin;  // [num_sections + 1], in pairs; null: pairs_per_section
  BuildDraft* drafts;            // [num_rows]
  BuildRow* rows;                // [num_rows]
  BuildPiece* pieces;            // [max_pieces]
  BuildPieces* plane_pieces;     // [num_planes]
  MixedTile* mixed;              // [max_bit_tiles]
  Run* draft_runs;               // [max_runs]
  int32_t* num_items;
  CudaItem* items;       // [max_items]
  Run* runs;             // [max_runs]
  uint32_t* bit_units;   // [max_bit_tiles][tile_m / 64][64][4]
  uint32_t* tile_kinds;  // [max_bit_tiles]
};

// Levels of evaluation: k are in use only where 2^(k - 1) leaves are nested evenly.
inline constexpr int max_device_stack = 12;
// A row of tiles is held in shared memory as a few bits a tile: so many at most, 25 million keys.
inline constexpr int32_t max_row_tiles = 196'608;

}  // namespace anymask
