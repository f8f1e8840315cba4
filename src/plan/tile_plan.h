// WHICH tiles run: the plain arrays every kernel reads. No kernel knows a mask kind; no mask knows a kernel.
//
// Canonical: runs are maximal and ascending, empty tiles do not appear, FULL means every pair inside the plane is kept,
// PARTIAL means at least one is and at least one is not. Two spellings of one mask give equal plans.
//
// In the forward orientation rows (m) are queries and columns (n) are keys. The transposed plan, for dK and dV, is the same
// struct built with the roles exchanged: rows (m) are keys, columns (n) are queries. It is built from the mask, never derived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anymask {

enum class RunKind : uint32_t {
  full = 0,          // every pair of these tiles is kept (pairs beyond the plane's edge do not count)
  partial = 1,       // tile n has bit tile bits + (n - n_begin)
  partial_same = 2,  // every tile of the run has bit tile `bits`
};

struct Run {
  int32_t n_begin = 0, n_end = 0;  // tiles [n_begin, n_end)
  RunKind kind = RunKind::full;
  int32_t bits = 0;                // index into the pool of bit tiles
  friend bool operator==(const Run&, const Run&) = default;
};

// Rows of one plane: m_block of the plane has runs[row_begin[first_row + m_block] .. row_begin[first_row + m_block + 1]).
struct PlanPlane {
  int64_t rows = 0, cols = 0;            // pairs along m and n (s_q, s_kv; exchanged when transposed)
  int32_t m_blocks = 0, n_blocks = 0;
  int64_t first_row = 0;
  int64_t kept_pairs = 0;
  int64_t full_tiles = 0, partial_tiles = 0;
};

// A piece of a row of tiles: runs [run_begin, run_end), from tile n_begin of the first to tile n_end (exclusive) of the last.
struct WorkItem {
  int32_t plane = 0, m_block = 0;
  int32_t run_begin = 0, run_end = 0;  // relative to the row's first run
  int32_t n_begin = 0, n_end = 0;
  int32_t split = 0, num_splits = 1;   // this piece of that many; pieces are merged by lse
  float cost = 0;                      // in tiles
};

struct PlanStats {
  int64_t kept_pairs = 0, pairs = 0;                          // summed over sequences and mask heads, as plane_of maps them
  int64_t full_tiles = 0, partial_tiles = 0, empty_tiles = 0; // summed likewise
  int64_t bytes = 0;                                          // held by this plan
};

struct TilePlan {
  int32_t tile_m = 0, tile_n = 0;   // tile_n is a multiple of 64
  bool transposed = false;
  std::vector<PlanPlane> planes;
  std::vector<int32_t> plane_of;    // [sequences, heads], heads 1 or h_q
  int64_t heads = 1;
  std::vector<int64_t> row_begin;   // one entry a row of tiles over all planes, and one more
  std::vector<Run> runs;
  std::vector<uint64_t> bit_tiles;  // bit tile i: tile_m rows of tile_n / 64 words from i * tile_m * tile_n / 64; bits beyond the plane are 0
  std::vector<WorkItem> work;       // longest first
  PlanStats stats;

  size_t words_per_tile() const { return static_cast<size_t>(tile_m) * static_cast<size_t>(tile_n / 64); }
};

}  // namespace anymask
