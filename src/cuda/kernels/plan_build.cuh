// A TilePlan built on the device from the mask's program, by five kernels.
//
// plan_classify  one block a row of tiles (of a plane). Groups of tiles are classified first, then the tiles of mixed
//                groups; a band needs its first and last row alone. Tiles still mixed get a bit tile each, consecutive
//                in the row.
// plan_evaluate  one warp a unit of 64 rows x 128 columns of those, or all units of a tile whose heads are folded into
//                few rows of the plane, wherever they are: a row that a border runs along has as many as it has tiles.
//                Writes the unit in fragment order and says what it holds.
// plan_runs      one block a row: mixed tiles are FULL, PARTIAL or nothing by now; maximal runs are read off.
// plan_pieces    one block a plane. Rows are cut where they are long, classed by cost and sorted by class, stably.
// plan_items     a block for some pairs of sequence and head: their pieces as items, sorted by class inside a section
// of
//                pairs whose K and V share the second-level cache.
//
// Runs and bit tiles of a row are consecutive; which row comes first in memory varies from run to run. Capacities are
// bounds the host proved (plan/capacity.h): beyond them is a trap.
#pragma once

#include "cuda/plan/evaluate.cuh"
#include "cuda/plan/plan_data.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/tile/block_sum.cuh"
#include "cuda/tile/mask_bits.cuh"

namespace anymask::plan_build {

inline constexpr int row_threads = 128;
inline constexpr int piece_threads = max_cuts;  // a thread asks for each number of cuts
inline constexpr int item_threads = cost_classes;

__device__ inline uint32_t lanes_before() { return (1u << (threadIdx.x % 32)) - 1; }

// Bits [begin, end) of word `w`.
__device__ inline uint32_t word_of_range(int32_t w, int64_t begin, int64_t end) {
  return static_cast<uint32_t>(bit_range(begin - int64_t{w} * 32, end - int64_t{w} * 32));
}

// A row of tiles in shared memory, a bit a tile.
struct RowTiles {
  int32_t words;
  uint32_t* full;
  uint32_t* mixed;    // not decided by classification
  uint32_t* partial;  // those of them that are cut
  int32_t* before;    // mixed tiles in earlier words

  __device__ RowTiles(uint32_t* shared, int32_t n_blocks)
      : words((n_blocks + 31) / 32),
        full(shared),
        mixed(shared + words),
        partial(shared + 2 * words),
        before(reinterpret_cast<int32_t*>(shared + 3 * words)) {}
  __device__ void clear() const {
    for (int32_t i = threadIdx.x; i < 2 * words; i += blockDim.x) full[i] = 0;
  }
  __device__ static void set(uint32_t* kept, int64_t begin, int64_t end) {
    for (auto w = static_cast<int32_t>(begin / 32); int64_t{w} * 32 < end; ++w) {
      atomicOr(&kept[w], word_of_range(w, begin, end));
    }
  }
};

// Sums count(w) over the words in each warp for itself, which costs less than a barrier; with each(w, count before w).
template <class Count, class Each>
__device__ int32_t sum_words(int32_t words, Count&& count, Each&& each) {
  const int lane = threadIdx.x % 32;
  int32_t total = 0;
  for (int32_t base = 0; base < words; base += 32) {
    const int32_t w = base + lane, value = w < words ? count(w) : 0;
    int32_t sum = value;
    for (int step = 1; step < 32; step *= 2) {
      const int32_t other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    if (w < words) each(w, total + sum - value);
    total += __shfl_sync(~0u, sum, 31);
  }
  return total;
}

struct RowPlace {
  int32_t n_blocks;
  int64_t begin, end;  // rows of pairs
  bool transposed;
  Fold fold;

  __device__ RowPlace(const BuildHeader& header, const BuildPlane& plane, int32_t row)
      : n_blocks(plane.n_blocks),
        begin(int64_t{row - plane.first_row} * header.fold.tokens(header.tile_m)),
        end(min_of(begin + header.fold.tokens(header.tile_m), header.transposed ? plane.s_kv : plane.s_q)),
        transposed(header.transposed != 0),
        fold(header.fold) {}

  __device__ Rect rect(const Plane& plane, int64_t n_begin, int64_t n_end) const {
    const int64_t col = n_begin * plan_tile_n, cols = transposed ? plane.s_q : plane.s_kv;
    const int64_t col_end = min_of(n_end * plan_tile_n, cols);
    return transposed ? Rect{col, col_end, begin, end} : Rect{begin, end, col, col_end};
  }
};

// Row `row` of all planes: which plane it is of, and where in it.
__device__ inline const BuildPlane& plane_of_row(const PlanBuild& build, int32_t row) {
  int32_t p = 0;
  for (int32_t high = build.header->num_planes; high - p > 1;) {
    const int32_t middle = (p + high) / 2;
    if (build.planes[middle].first_row <= row) {
      p = middle;
    } else {
      high = middle;
    }
  }
  return build.planes[p];
}

// Tiles of a band: some row reaches into them, or every row covers them.
__device__ inline void classify_band(const Plane& plane, const RowPlace& place, const RowTiles& tiles) {
  __shared__ Interval ends[2];
  if (threadIdx.x % 32 == 0 && threadIdx.x < 64) {
    ends[threadIdx.x / 32] = plane.interval(threadIdx.x == 0 ? place.begin : place.end - 1);
  }
  __syncthreads();
  const Interval first = ends[0], last = ends[1];
  const int64_t touched_end = first.begin < last.end ? (last.end + plan_tile_n - 1) / plan_tile_n : 0;
  const int64_t full_begin = (last.begin + plan_tile_n - 1) / plan_tile_n;
  const int64_t full_end = first.end == plane.s_kv ? place.n_blocks : first.end / plan_tile_n;
  for (int32_t w = threadIdx.x; w < tiles.words; w += blockDim.x) {
    const uint32_t touched = word_of_range(w, first.begin / plan_tile_n, touched_end);
    const uint32_t full = touched & word_of_range(w, full_begin, full_end);
    tiles.full[w] = full;
    tiles.mixed[w] = touched & ~full;
  }
}

// A thread a group of tiles, a power of two of them; then a thread a tile of the groups that are mixed.
__device__ inline void classify_tiles(const Plane& plane, const RowPlace& place, const RowTiles& tiles) {
  __shared__ int32_t queue[row_threads], queued;
  tiles.clear();
  if (threadIdx.x == 0) queued = 0;
  __syncthreads();
  int32_t shift = 0;
  while ((int64_t{blockDim.x} << shift) < place.n_blocks) ++shift;
  const int64_t group_begin = int64_t{threadIdx.x} << shift;
  if (group_begin < place.n_blocks) {
    const int64_t group_end = min_of(group_begin + (int64_t{1} << shift), place.n_blocks);
    const Kept kept = plane.classify(place.rect(plane, group_begin, group_end));
    if (kept == Kept::full) {
      RowTiles::set(tiles.full, group_begin, group_end);
    } else if (kept == Kept::partial) {
      if (shift == 0) {
        atomicOr(&tiles.mixed[group_begin / 32], 1u << (group_begin % 32));
      } else {
        queue[atomicAdd(&queued, 1)] = static_cast<int32_t>(threadIdx.x);
      }
    }
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < int64_t{queued} << shift; i += blockDim.x) {
    const int64_t n = (int64_t{queue[i >> shift]} << shift) + (i & ((int64_t{1} << shift) - 1));
    if (n >= place.n_blocks) continue;
    const Kept kept = plane.classify(place.rect(plane, n, n + 1));
    if (kept != Kept::empty) atomicOr(&(kept == Kept::full ? tiles.full : tiles.mixed)[n / 32], 1u << (n % 32));
  }
}

// One warp: evaluates unit `u` of a tile, writes it and returns its flags, the same in all lanes. `tokens`: of the
// whole tile, where they are known; else null.
__device__ inline uint32_t evaluate_unit(const Plane& plane, const RowPlace& place, int32_t n, int32_t u,
                                         const LaneWords* tokens, uint32_t* unit) {
  const int lane = threadIdx.x % 32;
  const int64_t row = place.begin + place.fold.token(u * 64), col = int64_t{n} * plan_tile_n;
  uint32_t columns[2][4] = {};  // of rows lane and lane + 32, 32 columns each
  if (tokens != nullptr) {
    for (int half = 0; half < 2; ++half) {
      const int32_t token = place.fold.token(u * 64 + half * 32 + lane);
      for (int k = 0; k < 4; ++k) {
        const auto of = [&](int from) {
          return __shfl_sync(~0u, static_cast<uint32_t>(tokens->word[2 * from + k / 2] >> (32 * (k % 2))), token % 32);
        };
        const uint32_t low = of(0), high = of(1);
        columns[half][k] = token < 32 ? low : high;
      }
    }
  } else if (!place.transposed) {
    const LaneWords bits = plane.row_words<2>(row + lane, col);
    for (int half = 0; half < 2; ++half) {
      for (int k = 0; k < 4; ++k)
        columns[half][k] = static_cast<uint32_t>(bits.word[2 * half + k / 2] >> (32 * (k % 2)));
    }
    if (place.fold.log2 > 0) {  // 32 tokens at most, in the lower half: to the rows of all their heads
      for (int k = 0; k < 4; ++k) {
        const uint32_t word = columns[0][k];
        columns[0][k] = __shfl_sync(~0u, word, place.fold.token(lane));
        columns[1][k] = __shfl_sync(~0u, word, place.fold.token(lane + 32));
      }
    }
  } else {
    // Rows are keys: each lane evaluates 64 of them for four queries, and the warp turns them over.
    if (row < place.end) {
      const LaneWords bits = plane.row_words<1>(col + lane, row);
      for (int k = 0; k < 4; ++k) {
        columns[0][k] = turn(static_cast<uint32_t>(bits.word[k]));
        columns[1][k] = turn(static_cast<uint32_t>(bits.word[k] >> 32));
      }
    }
  }

  const int64_t cols = (place.transposed ? plane.s_q : plane.s_kv) - col;
  bool any = false, all = true, all_inside = true;
  for (int half = 0; half < 2; ++half) {
    const bool inside = row + place.fold.token(half * 32 + lane) < place.end;
    uint32_t words[4] = {};
    for (int k = 0; k < 4; ++k) {
      const uint32_t x = columns[half][k];
      any |= x != 0;
      all &= x == ~0u;
      all_inside &= !inside || x == static_cast<uint32_t>(bit_range(0, min_of(cols - 32 * k, 32)));
      for (int c = 0; c < 4; ++c) words[c] |= quarter(x, c) << (8 * k);
    }
    reinterpret_cast<uint4*>(unit)[half * 32 + lane] = make_uint4(words[0], words[1], words[2], words[3]);
  }
  return (__any_sync(~0u, any) ? unit_any : 0u) | (__all_sync(~0u, all) ? 0u : unit_cut) |
         (__all_sync(~0u, all_inside) ? 0u : unit_cut_inside);
}

// Sorts the mixed tiles, which hold bit tiles from bit_begin on, into full, partial and nothing. A warp a word.
__device__ inline void resolve(const PlanBuild& build, int32_t units, const RowTiles& tiles, int32_t bit_begin) {
  const int lane = threadIdx.x % 32;
  for (int32_t w = threadIdx.x / 32; w < tiles.words; w += blockDim.x / 32) {
    const uint32_t mixed = tiles.mixed[w];
    bool any = false, inside = true;
    if (mixed >> lane & 1) {
      const int64_t tile = int64_t{bit_begin} + tiles.before[w] + __popc(mixed & lanes_before());
      const uint32_t found = build.tile_kinds[tile];
      uint32_t kinds = 0;
      for (int32_t u = 0; u < units; ++u) {
        const uint32_t unit = found >> (8 * u);
        any |= (unit & unit_any) != 0;
        inside &= (unit & unit_cut_inside) == 0;
        kinds |= (!(unit & unit_cut) ? 1u : unit & unit_any ? 2u : 0u) << (2 * u);
      }
      build.tile_kinds[tile] = kinds;
    }
    const uint32_t full = __ballot_sync(~0u, any && inside), partial = __ballot_sync(~0u, any && !inside);
    if (lane == 0) {
      tiles.full[w] |= full;
      tiles.partial[w] = partial;
    }
  }
}

// The tiles at which a run begins (or, looking the other way, ends).
__device__ inline uint32_t run_begins(const uint32_t* kept, int32_t w) {
  return kept[w] & ~(kept[w] << 1 | (w > 0 ? kept[w - 1] >> 31 : 0u));
}
__device__ inline uint32_t run_ends(const uint32_t* kept, int32_t w, int32_t words) {
  return kept[w] & ~(kept[w] >> 1 | (w + 1 < words ? kept[w + 1] << 31 : 0u));
}
__device__ inline bool run_continues(const uint32_t* kept, int32_t w) {
  return w > 0 && (kept[w - 1] >> 31 & kept[w] & 1) != 0;
}

// Runs of full tiles and of `cut` ones, which are among the mixed: how many, and where they are wanted.
__device__ inline int32_t count_runs(const RowTiles& tiles, const uint32_t* cut) {
  return sum_words(
      tiles.words, [&](int32_t w) { return __popc(run_begins(tiles.full, w) | run_begins(cut, w)); },
      [](int32_t, int32_t) {});
}
// The first warp writes them.
__device__ inline void write_runs(const RowTiles& tiles, const uint32_t* cut, int32_t bit_begin, Run* runs) {
  sum_words(
      tiles.words, [&](int32_t w) { return __popc(run_begins(tiles.full, w) | run_begins(cut, w)); },
      [&](int32_t w, int32_t before) {
        Run* begin = runs + before;
        Run* end = begin - (run_continues(tiles.full, w) || run_continues(cut, w) ? 1 : 0);
        for (uint32_t begins = run_begins(tiles.full, w) | run_begins(cut, w); begins != 0; begins &= begins - 1) {
          const int32_t bit = __ffs(static_cast<int>(begins)) - 1;
          const bool full = tiles.full[w] >> bit & 1;
          begin->n_begin = w * 32 + bit;
          begin->kind = full ? RunKind::full : RunKind::partial;
          begin->bits = full ? 0 : bit_begin + tiles.before[w] + __popc(tiles.mixed[w] & ((1u << bit) - 1));
          ++begin;
        }
        for (uint32_t ends = run_ends(tiles.full, w, tiles.words) | run_ends(cut, w, tiles.words); ends != 0;
             ends &= ends - 1) {
          end->n_end = w * 32 + __ffs(static_cast<int>(ends));
          ++end;
        }
      });
}

// A place for `count` more, or a trap: the host's bound says that it cannot be.
template <class Count>
__device__ int32_t allocate(Count* counter, int32_t count, int32_t capacity) {
  const auto begin = static_cast<int64_t>(atomicAdd(counter, static_cast<Count>(count)));
  if (begin + count > capacity) __trap();
  return static_cast<int32_t>(begin);
}

// Number the mixed tiles of a row; returns how many.
__device__ inline int32_t number_mixed(const RowTiles& tiles) {
  return sum_words(
      tiles.words, [&](int32_t w) { return __popc(tiles.mixed[w]); },
      [&](int32_t w, int32_t before) {
        if (threadIdx.x < 32) tiles.before[w] = before;
      });
}

__global__ void __launch_bounds__(row_threads) plan_classify(const __grid_constant__ PlanBuild build) {
  extern __shared__ uint32_t shared[];  // [4][words]
  __shared__ BuildDraft draft;
  ptx::wait_for_previous();
  BuildHeader& header = *build.header;
  const auto row = static_cast<int32_t>(blockIdx.x);
  const BuildPlane& bound = plane_of_row(build, row);
  const Plane plane(build, bound);
  const RowPlace place(header, bound, row);
  const RowTiles tiles(shared, bound.n_blocks);
  if (plane.band && !place.transposed) {
    classify_band(plane, place, tiles);
  } else {
    classify_tiles(plane, place, tiles);
  }
  __syncthreads();

  const int32_t num_mixed = number_mixed(tiles), num_runs = count_runs(tiles, tiles.mixed);
  if (threadIdx.x == 0) {
    draft = {0, num_runs, 0};
    if (num_mixed > 0) draft.bit_begin = allocate(&header.counters.bit_tiles, num_mixed, header.max_bit_tiles);
    if (num_runs > 0) draft.run_begin = allocate(&header.counters.drafts, num_runs, header.max_runs);
    build.drafts[row] = draft;
  }
  __syncthreads();
  if (threadIdx.x < 32) write_runs(tiles, tiles.mixed, draft.bit_begin, build.draft_runs + draft.run_begin);
  if (num_mixed == 0) return;
  for (int32_t w = threadIdx.x / 32; w < tiles.words; w += blockDim.x / 32) {
    const uint32_t mixed = tiles.mixed[w];
    if (mixed >> (threadIdx.x % 32) & 1) {
      const int64_t tile = int64_t{draft.bit_begin} + tiles.before[w] + __popc(mixed & lanes_before());
      build.mixed[tile] = {row, w * 32 + static_cast<int32_t>(threadIdx.x % 32)};
      build.tile_kinds[tile] = 0;
    }
  }
}

__global__ void __launch_bounds__(evaluate_threads) plan_evaluate(const __grid_constant__ PlanBuild build) {
  ptx::wait_for_previous();
  const BuildHeader& header = *build.header;
  const uint32_t units = static_cast<uint32_t>(header.tile_m) / 64, warps = gridDim.x * (evaluate_threads / 32);
  auto* const flags = reinterpret_cast<uint8_t*>(build.tile_kinds);  // a byte a unit for now, four a tile
  const uint32_t task = blockIdx.x * (evaluate_threads / 32) + threadIdx.x / 32;
  if (header.fold.log2 > 0 && header.fold.tokens(header.tile_m) <= 64) {  // a tile's tokens are evaluated at once
    for (uint64_t tile = task; tile < header.counters.bit_tiles; tile += warps) {
      const MixedTile mixed = build.mixed[tile];
      const BuildPlane& bound = plane_of_row(build, mixed.row);
      const Plane plane(build, bound);
      const RowPlace place(header, bound, mixed.row);
      const LaneWords tokens = plane.row_words<2>(place.begin + threadIdx.x % 32, int64_t{mixed.n} * plan_tile_n);
      for (uint32_t u = 0; u < units; ++u) {
        const uint32_t found = evaluate_unit(plane, place, mixed.n, static_cast<int32_t>(u), &tokens,
                                             build.bit_units + (tile * units + u) * 256);
        if (threadIdx.x % 32 == 0) flags[tile * 4 + u] = static_cast<uint8_t>(found);
      }
    }
    return;
  }
  uint64_t tile = task / units;
  for (uint32_t u = task % units; tile < header.counters.bit_tiles;) {
    const MixedTile mixed = build.mixed[tile];
    const BuildPlane& bound = plane_of_row(build, mixed.row);
    const uint32_t found = evaluate_unit(Plane(build, bound), RowPlace(header, bound, mixed.row), mixed.n,
                                         static_cast<int32_t>(u), nullptr, build.bit_units + (tile * units + u) * 256);
    if (threadIdx.x % 32 == 0) flags[tile * 4 + u] = static_cast<uint8_t>(found);
    u += warps % units;
    tile += warps / units + u / units;
    u %= units;
  }
}

__global__ void __launch_bounds__(row_threads) plan_runs(const __grid_constant__ PlanBuild build) {
  extern __shared__ uint32_t shared[];  // [4][words]
  __shared__ int32_t run_begin;
  ptx::wait_for_previous();
  BuildHeader& header = *build.header;
  const auto row = static_cast<int32_t>(blockIdx.x);
  const BuildPlane& bound = plane_of_row(build, row);
  const RowTiles tiles(shared, bound.n_blocks);
  const BuildDraft draft = build.drafts[row];
  tiles.clear();
  __syncthreads();
  for (int32_t i = threadIdx.x; i < draft.num_runs; i += blockDim.x) {
    const Run run = build.draft_runs[int64_t{draft.run_begin} + i];
    RowTiles::set(run.kind == RunKind::full ? tiles.full : tiles.mixed, run.n_begin, run.n_end);
  }
  __syncthreads();
  number_mixed(tiles);
  __syncthreads();
  resolve(build, header.tile_m / 64, tiles, draft.bit_begin);
  __syncthreads();

  const auto nothing = [](int32_t, int32_t) {};
  BuildRow out{};
  out.num_runs = count_runs(tiles, tiles.partial);
  out.full_tiles = sum_words(
      tiles.words, [&](int32_t w) { return __popc(tiles.full[w]); }, nothing);
  out.partial_tiles = sum_words(
      tiles.words, [&](int32_t w) { return __popc(tiles.partial[w]); }, nothing);
  if (threadIdx.x == 0) {
    const uint32_t cost = full_cost * out.full_tiles + partial_cost * out.partial_tiles;
    atomicAdd(reinterpret_cast<unsigned long long*>(&header.counters.total_cost),
              static_cast<unsigned long long>(bound.uses) * (item_cost + cost));
    atomicMax(&header.counters.max_cost, cost);
    out.run_begin = run_begin = out.num_runs > 0 ? allocate(&header.counters.runs, out.num_runs, header.max_runs) : 0;
    build.rows[row] = out;
  }
  __syncthreads();
  if (threadIdx.x < 32) write_runs(tiles, tiles.partial, draft.bit_begin, build.runs + run_begin);
}

// How a row of tiles is cut and classed.
struct RowCut {
  int32_t num;     // pieces
  int32_t weight;  // class of each
};

// The number of cuts that takes least time, the smallest of them. Every thread of the block calls it.
__device__ inline int32_t choose_cuts(const WholeWork& work) {
  __shared__ unsigned long long best;
  if (!work.may_cut()) return 1;
  if (threadIdx.x == 0) best = ~0ull;
  __syncthreads();
  const auto cuts = static_cast<int32_t>(threadIdx.x) + 1;
  const float time = cuts == 1 || work.allows(cuts) ? work.time(cuts) : INFINITY;
  // Positive floats are ordered as their bits are.
  auto mine = static_cast<unsigned long long>(__float_as_uint(time)) << 32 | cuts;
  for (int step = 16; step > 0; step /= 2) {
    const unsigned long long other = __shfl_xor_sync(~0u, mine, step);
    if (other < mine) mine = other;
  }
  if (threadIdx.x % 32 == 0) atomicMin(&best, mine);
  __syncthreads();
  return static_cast<int32_t>(best & 0xffffffff);
}

struct CutRule {
  CutLimit limit;
  uint64_t scale;  // cost of the costliest class

  __device__ explicit CutRule(const WholeWork& work)
      : limit(work, choose_cuts(work)), scale(work.max_cost < limit.cost ? work.max_cost : limit.cost) {
    if (scale == 0) scale = 1;
  }
  __device__ RowCut cut(const BuildRow& row) const {
    const uint64_t cost = uint64_t{full_cost} * row.full_tiles + uint64_t{partial_cost} * row.partial_tiles;
    const int32_t num = limit.pieces(cost, row.full_tiles + row.partial_tiles);
    const uint64_t level = cost / num * (cost_classes - 1) / scale;
    return {num, static_cast<int32_t>(level < cost_classes ? cost_classes - 1 - level : 0)};
  }
};

// Pieces of a row, whose runs are walked once.
__device__ inline void write_pieces(const PlanBuild& build, const BuildRow& row, BuildPiece piece, BuildPiece* out) {
  const Run* runs = build.runs + row.run_begin;
  piece.run_begin = row.run_begin;
  piece.run_end = row.run_begin + row.num_runs;
  piece.n_begin = row.num_runs > 0 ? runs[0].n_begin : 0;
  piece.n_end = row.num_runs > 0 ? runs[row.num_runs - 1].n_end : 0;
  if (piece.num_splits == 1) {
    *out = piece;
    return;
  }
  const int64_t tiles = int64_t{row.full_tiles} + row.partial_tiles;
  int32_t run = 0, n = runs[0].n_begin;
  int64_t done = 0;
  for (int32_t split = 0; split < piece.num_splits; ++split, ++piece.order) {
    piece.split = split;
    piece.run_begin = row.run_begin + run;
    piece.n_begin = n;
    const int64_t stop = tiles * (split + 1) / piece.num_splits;
    for (;;) {
      const auto here = static_cast<int32_t>(min_of(stop - done, runs[run].n_end - n));
      done += here;
      n += here;
      piece.n_end = n;
      piece.run_end = row.run_begin + run + 1;
      if (n == runs[run].n_end && run + 1 < row.num_runs) n = runs[++run].n_begin;
      if (done == stop) break;
    }
    out[split] = piece;
  }
}

__global__ void __launch_bounds__(piece_threads) plan_pieces(const __grid_constant__ PlanBuild build) {
  constexpr int warps = piece_threads / 32;
  __shared__ int32_t counts[warps][cost_classes];  // pieces of each warp's rows, then where they begin
  __shared__ int32_t class_begin[cost_classes], piece_begin, slots;
  ptx::wait_for_previous();
  BuildHeader& header = *build.header;
  const BuildPlane& plane = build.planes[blockIdx.x];
  BuildPieces& out = build.plane_pieces[blockIdx.x];
  const CutRule rule({header.counters.total_cost, header.counters.max_cost, header.whole_items, header.parallelism});
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t rows_per_warp = (plane.m_blocks + warps - 1) / warps;
  const int32_t first = warp * rows_per_warp;
  const int32_t end = first + rows_per_warp < plane.m_blocks ? first + rows_per_warp : plane.m_blocks;
  const BuildRow* rows = build.rows + plane.first_row;

  for (int i = threadIdx.x; i < warps * cost_classes; i += piece_threads) counts[0][i] = 0;
  if (threadIdx.x == 0) slots = 0;
  __syncthreads();
  for (int32_t m = first + lane; m < end; m += 32) {
    const RowCut cut = rule.cut(rows[m]);
    atomicAdd(&counts[warp][cut.weight], cut.num);
  }
  __syncthreads();
  int32_t in_class = 0, total;
  if (threadIdx.x < cost_classes) {
    for (int w = 0; w < warps; ++w) {
      const int32_t count = counts[w][threadIdx.x];
      counts[w][threadIdx.x] = in_class;
      in_class += count;
    }
    out.count[threadIdx.x] = in_class;
  }
  const int32_t begin = exclusive_sum(in_class, total);
  if (threadIdx.x < cost_classes) class_begin[threadIdx.x] = begin;
  if (threadIdx.x == 0) piece_begin = allocate(&header.counters.pieces, total, header.max_pieces);
  __syncthreads();

  for (int32_t base = first; base < end; base += 32) {  // rows in order: a class keeps neighbours together
    const int32_t m = base + lane;
    const BuildRow row = m < end ? rows[m] : BuildRow{};
    RowCut cut = rule.cut(row);
    if (m >= end) cut.num = 0;
    const uint32_t peers = __match_any_sync(~0u, cut.weight) & lanes_before();
    int32_t order = counts[warp][cut.weight];
    for (int s = 0; s < 32; ++s) {
      const int32_t num = __shfl_sync(~0u, cut.num, s);
      if (peers >> s & 1) order += num;
    }
    __syncwarp();
    atomicAdd(&counts[warp][cut.weight], cut.num);
    __syncwarp();
    if (m >= end) continue;
    BuildPiece piece{};
    piece.m_block = m;
    piece.num_splits = cut.num;
    piece.slot = cut.num > 1 ? atomicAdd(&slots, cut.num) : 0;
    piece.weight = cut.weight;
    piece.order = order;
    write_pieces(build, row, piece, build.pieces + piece_begin + class_begin[cut.weight] + order);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    out.piece_begin = piece_begin;
    out.num_pieces = total;
    out.slots = slots;
    const int64_t all = int64_t{slots} * plane.uses;
    if (all > header.max_slots) __trap();
    out.slot_begin = slots > 0 ? allocate(&header.counters.slots, static_cast<int32_t>(all), header.max_slots) : 0;
  }
}

// Sums `of` over the entries that meet pairs [begin, end), each as often as it does.
template <class Of>
__device__ int32_t sum_over_pairs(const PlanBuild& build, int64_t begin, int64_t end, int first, int step, Of&& of) {
  if (begin >= end) return 0;
  if (build.plane_of == nullptr) return first == 0 ? static_cast<int32_t>(end - begin) * of(build.plane_pieces[0]) : 0;
  const int64_t per_entry = build.header->pairs_per_entry;
  int32_t sum = 0;
  for (int64_t e = begin / per_entry + first; e * per_entry < end; e += step) {
    const int64_t pairs = min_of(end, (e + 1) * per_entry) - max_of(begin, e * per_entry);
    sum += static_cast<int32_t>(pairs) * of(build.plane_pieces[build.plane_of[e]]);
  }
  return sum;
}

__global__ void __launch_bounds__(item_threads)
    plan_items(const __grid_constant__ PlanBuild build, const int32_t pairs_per_block) {
  __shared__ int32_t class_begin[cost_classes];
  ptx::wait_for_previous();
  const BuildHeader& header = *build.header;
  const int64_t begin = int64_t{blockIdx.x} * pairs_per_block, end = min_of(begin + pairs_per_block, header.pairs);
  const auto section_begin = [&](int32_t s) -> int64_t {
    if (build.section_begin != nullptr) return build.section_begin[s];
    return min_of(int64_t{s} * header.pairs_per_section, header.pairs);
  };
  int32_t section = 0;  // the one that holds the first pair
  for (int32_t high = header.num_sections; high - section > 1;) {
    const int32_t middle = (section + high) / 2;
    if (section_begin(middle) <= begin) {
      section = middle;
    } else {
      high = middle;
    }
  }
  int32_t before = 0, total;  // items of earlier sections
  const auto pieces_of = [](const BuildPieces& plane) { return plane.num_pieces; };
  if (build.plane_of == nullptr) {
    if (begin < end) before = sum_over_pairs(build, 0, section_begin(section), 0, 1, pieces_of);
  } else {
    exclusive_sum(sum_over_pairs(build, 0, section_begin(section), threadIdx.x, item_threads, pieces_of), before);
  }

  for (; section < header.num_sections && section_begin(section) < end; ++section) {
    const int64_t first = section_begin(section), last = section_begin(section + 1);
    const int64_t from = max_of(first, begin), to = min_of(last, end);
    const auto of_class = [](const BuildPieces& plane) { return plane.count[threadIdx.x]; };
    const int32_t here = sum_over_pairs(build, first, from, 0, 1, of_class);
    const int32_t all = here + sum_over_pairs(build, from, last, 0, 1, of_class);
    class_begin[threadIdx.x] = before + here + exclusive_sum(all, total);
    before += total;
    __syncthreads();
    for (int64_t pair = from; pair < to;) {  // an entry at a time: its pairs share a plane
      const int64_t entry = build.plane_of == nullptr ? 0 : pair / header.pairs_per_entry;
      const int64_t next = build.plane_of == nullptr ? to : min_of(to, (entry + 1) * header.pairs_per_entry);
      const BuildPieces& plane = build.plane_pieces[build.plane_of == nullptr ? 0 : build.plane_of[entry]];
      const int64_t uses_before =
          build.plane_of == nullptr ? 0 : (build.uses_before[entry] - entry) * int64_t{header.pairs_per_entry};
      const int32_t num_pieces = plane.num_pieces;
      const auto count = static_cast<int32_t>(next - pair) * num_pieces;
      for (int32_t i = threadIdx.x; i < count; i += item_threads) {
        const int32_t use = i / num_pieces, number = static_cast<int32_t>(pair) + use;  // `use`: from `pair` on
        const BuildPiece piece = build.pieces[plane.piece_begin + i - use * num_pieces];
        CudaItem item{};
        item.sequence = number / header.heads;
        item.head = number % header.heads;
        item.m_block = piece.m_block;
        item.run_begin = piece.run_begin;
        item.run_end = piece.run_end;
        item.n_begin = piece.n_begin;
        item.n_end = piece.n_end;
        item.split = piece.split;
        item.num_splits = piece.num_splits;
        if (piece.num_splits > 1) {
          const int64_t slot = plane.slot_begin + (uses_before + number) * plane.slots + piece.slot;
          item.partial = static_cast<int32_t>(slot);
        }
        build.items[class_begin[piece.weight] + use * plane.count[piece.weight] + piece.order] = item;
      }
      __syncthreads();
      class_begin[threadIdx.x] += static_cast<int32_t>(next - pair) * plane.count[threadIdx.x];
      __syncthreads();
      pair = next;
    }
  }
  if (threadIdx.x == 0 && end == header.pairs) *build.num_items = before;
}

// A stretch of an upload, carried by the launch itself: a captured graph owns its copy.
struct UploadPiece {
  static constexpr int words = 224;
  uint4 word[words];
};
__global__ void plan_upload(const __grid_constant__ UploadPiece piece, uint4* to, const int32_t count) {
  ptx::wait_for_previous();
  if (static_cast<int32_t>(threadIdx.x) < count) to[threadIdx.x] = piece.word[threadIdx.x];
}

}  // namespace anymask::plan_build
