// WHICH tiles run: the plain arrays every kernel reads. No kernel knows a mask kind; no mask knows a kernel.
//
// In the forward orientation rows (m) are queries and columns (n) are keys. The transposed plan, for dK and dV, is the
// same struct built with the roles exchanged: rows (m) are keys, columns (n) are queries. It is built from the mask,
// never derived from another plan.
//
// Canonical: a plan is a function of which pairs are kept, of the lengths and of the request, whatever the mask's
// spelling.
//  - Planes are numbered by first occurrence in plane_of; planes that list the same tiles and bits are one. heads is 1
//    where every sequence uses one plane for all its heads.
//  - Empty tiles do not appear. FULL: every pair inside the plane is kept. PARTIAL: at least one is, at least one is
//  not.
//  - Equal bit tiles are stored once, numbered by first occurrence: planes ascending, rows ascending, tiles ascending.
//  - Runs of a row ascend and are maximal, read from the left: adjacent FULL tiles are one run. A PARTIAL tile begins a
//    run of kind `partial`. The next PARTIAL tile joins if its bit tile is the next number (kind `partial`), or if it
//    is the same number and the run so far holds that one alone (kind `partial_same`); else it begins a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anymask {

enum class RunKind : uint32_t {
  full = 0,          // every pair of these tiles is kept (pairs beyond the plane's edge do not count)
  partial = 1,       // tile n has bit tile bits + (n - n_begin)
  partial_same = 2,  // every tile of the run has bit tile `bits`; two tiles or more
};

struct Run {
  int32_t n_begin = 0, n_end = 0;  // tiles [n_begin, n_end)
  RunKind kind = RunKind::full;
  int32_t bits = 0;  // index into the pool of bit tiles
  friend bool operator==(const Run&, const Run&) = default;
};

// Rows of one plane: m_block has runs[row_begin[first_row + m_block] .. row_begin[first_row + m_block + 1]).
struct PlanPlane {
  int64_t rows = 0, cols = 0;  // pairs along m and n (s_q, s_kv; exchanged when transposed)
  int32_t m_blocks = 0, n_blocks = 0;
  int64_t first_row = 0;
  int64_t kept_pairs = 0;
  int64_t full_tiles = 0, partial_tiles = 0;
  friend bool operator==(const PlanPlane&, const PlanPlane&) = default;
};

// A piece of a row of tiles: runs [run_begin, run_end), from tile n_begin of the first to tile n_end (exclusive) of the
// last. A row that lists no tile has one item of cost 0 and no runs: its outputs must still be written.
struct WorkItem {
  int32_t plane = 0, m_block = 0;
  int32_t run_begin = 0, run_end = 0;  // relative to the row's first run
  int32_t n_begin = 0, n_end = 0;
  int32_t split = 0, num_splits = 1;  // this piece of that many; pieces are merged by lse
  float cost = 0;                     // in tiles
  friend bool operator==(const WorkItem&, const WorkItem&) = default;
};

struct PlanStats {
  int64_t kept_pairs = 0, pairs = 0;                           // summed over plane_of
  int64_t full_tiles = 0, partial_tiles = 0, empty_tiles = 0;  // summed likewise
  int64_t bytes = 0;                                           // held by this plan
  friend bool operator==(const PlanStats&, const PlanStats&) = default;
};

struct TilePlan {
  int32_t tile_m = 0, tile_n = 0;  // tile_n is a multiple of 64
  bool transposed = false;
  std::vector<PlanPlane> planes;
  std::vector<int32_t> plane_of;  // [sequences, heads], heads 1 or h_q
  int64_t heads = 1;
  std::vector<int64_t> row_begin;  // one entry a row of tiles over all planes, and one more
  std::vector<Run> runs;
  std::vector<uint64_t>
      bit_tiles;  // bit tile i: tile_m rows of tile_n / 64 words from i * words_per_tile(); bits beyond the plane are 0
  std::vector<WorkItem> work;  // every row of tiles of every plane, longest first
  PlanStats stats;

  size_t words_per_tile() const { return static_cast<size_t>(tile_m) * static_cast<size_t>(tile_n / 64); }
  int32_t plane(int64_t sequence, int64_t h_q) const {
    return plane_of[static_cast<size_t>(sequence * heads + (heads == 1 ? 0 : h_q))];
  }
  friend bool operator==(const TilePlan&, const TilePlan&) = default;
};

}  // namespace anymask
