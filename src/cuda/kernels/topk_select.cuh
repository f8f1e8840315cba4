// The window largest values of every row, in one read of them: as two integers a row (topk_params.h) and, where a plan
// is being built, as its bit tiles.
//
// A team of warps takes a row: one warp up to 4,096 16-bit keys (2,048 of 32 bits), then 2, 4, 8 or 16 of a block, then
// the blocks of a cluster. Each warp holds its segment in 64 registers a lane and counts how many keys reach a value:
// 64 packed compares and adds, a sum over lanes, one over the team's warps. TopkSearch says which values, about five a
// row.
//
//   copy row r + 1 into the warp's 8 KB of shared memory   ── asynchronous, 16 warps keep 128 KB in flight ──┐
//   count, count, count, ... in registers; row r's threshold; its bits                                      │
//   shared memory -> registers  <─────────────────────────────────────────────────────────────────────────────┘
//
// Rows longer than a cluster holds are read again for every count, segment by segment, from the second-level cache.
//
// Where a lane's keys are the 128 columns of a fragment unit (cuda/attention_params.h), its four words of 32 bits are
// its row of the unit. Ties: lanes, segments and warps ascend with keys, so a running sum finds the last one kept.
#pragma once

#include "cuda/ptx/grid_dependency.cuh"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/tile/topk_keys.cuh"
#include "cuda/tile/topk_search.cuh"
#include "cuda/tile/topk_team.cuh"
#include "cuda/topk_params.h"

namespace anymask::topk {

template <int chunks>
struct Shared {
  uint4 segments[block_warps][32 * chunks];
  TeamNumbers numbers;
};

// A row, and what of it may be chosen.
struct Row {
  const TopkPlane* plane;
  int32_t q, begin, end;
};

// Kept are the keys whose value is at least `least`, of those below `above` only the first `ties`.
struct Cut {
  int32_t least, above, ties;  // ties 0: all of them
};

template <class Keys, int chunks, int team_warps, bool cluster, bool streamed>
class Selector {
  static constexpr int segment_keys = 32 * chunks * Keys::chunk_keys, lane_keys = chunks * Keys::chunk_keys;
  static constexpr int groups = Keys::groups(chunks), unit_lanes = 16 / groups;
  static constexpr int32_t lowest = -Keys::infinity, highest = Keys::infinity + 1;
  using Element = typename Keys::Element;

 public:
  __device__ Selector(const TopkParams& params, Shared<chunks>& shared)
      : params_(params),
        team_(shared.numbers),
        lane_(static_cast<int>(threadIdx.x) % 32),
        slot_(shared.segments[threadIdx.x / 32]) {}

  __device__ void run() {
    int32_t number = team_.index() * params_.rows_at_once;
    if (number >= params_.num_rows) return;
    Row row = find(number, params_.planes);
    if constexpr (!streamed) copy(row, base(0));
    while (true) {
      const int32_t next = after(number);
      const bool more = next < params_.num_rows;
      if constexpr (!streamed) {
        const Row following = more ? find(next, row.plane) : row;  // while this one is on its way
        arrive(row, base(0));
        if (more) copy(following, base(0));
      }
      select(row);
      if (!more) break;
      number = next;
      row = find(number, row.plane);  // once more: registers are scarce in between
    }
  }

 private:
  // The team's next row. There are at most 2^30, and fewer teams.
  __device__ int32_t after(int32_t number) const {
    const int32_t many = params_.rows_at_once, next = number + 1;
    return (next & (many - 1)) != 0 ? next : next + (team_.teams() - 1) * many;
  }
  __device__ int32_t base(int segment) const { return (team_.warp() * params_.segments + segment) * segment_keys; }

  // Most of the time in `plane`, the one before it.
  __device__ Row find(int32_t number, const TopkPlane* plane) const {
    if (number < plane->first_row || number - plane->first_row >= plane->num_rows) {
      int32_t p = 0;
      for (int32_t high = params_.num_planes; high - p > 1;) {
        const int32_t middle = (p + high) / 2;
        (params_.planes[middle].first_row <= number ? p : high) = middle;
      }
      plane = params_.planes + p;
    }
    Row row{plane, number - plane->first_row, 0, plane->s_kv};
    if (plane->among.limits != nullptr) {
      const TopkLimits limits = plane->among.limits[row.q * plane->among.step];
      row.begin = max(limits.begin, 0);
      row.end = min(limits.end, plane->s_kv);
      if (row.begin >= row.end) row.begin = row.end = 0;
    }
    return row;
  }

  // Of the row, as words: those of the unit that this lane's keys lie in.
  __device__ uint4 words_of(const TopkKeys& keys, const Row& row, int32_t from) const {
    const int32_t units = (row.plane->s_kv + 127) / 128, unit = (from + lane_ * lane_keys) / 128;
    if (unit >= units) return make_uint4(0, 0, 0, 0);
    return __ldg(reinterpret_cast<const uint4*>(keys.words) + int64_t{row.q} * keys.step * units + unit);
  }

  // Starts copying the segment's chunks that hold candidates; nothing is known of the rest.
  __device__ void copy(const Row& row, int32_t from) {
    const TopkPlane& plane = *row.plane;
    if (plane.among.words != nullptr) among_ = words_of(plane.among, row, from);
    const auto* const values = static_cast<const Element*>(plane.values) + row.q * plane.stride_q;
    const int32_t first = max(row.begin, from), last = min(row.end, from + segment_keys);
    if (plane.stride_kv == 1 && reinterpret_cast<uintptr_t>(values) % 16 == 0) {
      const auto* const source = reinterpret_cast<const uint4*>(values + from) + lane_;
      const int32_t whole_end = plane.s_kv / Keys::chunk_keys * Keys::chunk_keys;
      if (first == from && min(last, whole_end) == from + segment_keys) {
#pragma unroll
        for (int i = 0; i < chunks; ++i) ptx::cp_async_16(ptx::shared_address(&slot_[32 * i + lane_]), source + 32 * i);
      } else {
        const int32_t begin = (first - from) / Keys::chunk_keys,
                      end = (min(last + Keys::chunk_keys - 1, whole_end) - from) / Keys::chunk_keys;
#pragma unroll 1
        for (int32_t i = begin; i < end; i += 32) {
          if (i + lane_ < end) ptx::cp_async_16(ptx::shared_address(&slot_[i + lane_]), source + i);
        }
        const int32_t key = whole_end + lane_;  // the last few do not fill a chunk
        if (key >= first && key < last) reinterpret_cast<Element*>(slot_)[key - from] = values[key];
      }
    } else {
#pragma unroll 1
      for (int32_t key = first + lane_; key < last; key += 32)
        reinterpret_cast<Element*>(slot_)[key - from] = values[key * plane.stride_kv];
    }
    ptx::cp_async_commit();
  }

  // Waits for the segment and takes it into registers; keys that are no candidates become NaN.
  __device__ void arrive(const Row& row, int32_t from) {
    ptx::cp_async_wait<0>();
    __syncwarp();
    const int first = first_chunk<chunks>(lane_);
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const uint4 four = slot_[lane_ * chunks + (i + first) % chunks];
      x_[4 * i] = four.x;
      x_[4 * i + 1] = four.y;
      x_[4 * i + 2] = four.z;
      x_[4 * i + 3] = four.w;
    }
    const int32_t begin = row.begin - from, end = row.end - from;
    const bool whole = begin <= 0 && end >= segment_keys;
    if (!whole || row.plane->among.words != nullptr) {
      uint32_t candidates[4] = {~0u, ~0u, ~0u, ~0u};
      if (row.plane->among.words != nullptr) {
        const uint32_t unit[4] = {among_.x, among_.y, among_.z, among_.w};
#pragma unroll
        for (int c = 0; c < 4; ++c) candidates[c] = unit[c] >> (2 * groups * (lane_ % unit_lanes));
      }
      if (!whole) {
        const int32_t key = lane_ * lane_keys;
#pragma unroll
        for (int c = 0; c < 4; ++c)
          candidates[c] &= unit_columns_below(end - key, c) & ~unit_columns_below(begin - key, c);
      }
      Keys::template filter<chunks>(x_, candidates, lane_);
    }
    __syncwarp();
  }

  // Every segment of this warp in turn; the only one is in registers.
  template <class Each>
  __device__ void each_segment(const Row& row, Each&& each) {
    if constexpr (streamed) {
      for (int s = 0; s < params_.segments; ++s) {
        copy(row, base(s));
        arrive(row, base(s));
        each(base(s));
      }
    } else {
      each(base(0));
    }
  }

  // Of the warp.
  __device__ int count(const Row& row, int32_t code) {
    int sum = 0;
    each_segment(row, [&](int32_t) { sum += Keys::template count<chunks>(x_, code); });
    return sum;
  }

  // A hint where there was no row before: each warp's own threshold of a quarter of its segment, the mean over those
  // that hold candidates throughout. It costs about a count, and saves half of those that a search from nothing takes.
  __device__ void guess(const Row& row, int32_t window, int32_t candidates) {
    constexpr int sampled = chunks / 4, keys = segment_keys / 4;
    const int32_t first = (row.begin - 1) / segment_keys + (row.begin > 0 ? 1 : 0), last = row.end / segment_keys;
    if (first >= last) return;
    const float share = static_cast<float>(keys) / static_cast<float>(candidates);
    int32_t code = 0, step = 0;
    if (team_.warp() >= first && team_.warp() < last) {
      const int32_t rank = max(static_cast<int32_t>(share * static_cast<float>(window) + 0.5f), 1);
      TopkSearch search(rank, keys, lowest, highest);
      for (int steps = 0; steps < 12 && !search.done(); ++steps) {
        const int32_t next = search.next(TopkHint{0, 0});
        search.counted(next, Keys::template count<sampled>(x_, next));
      }
      code = search.low() / (last - first);
      step = static_cast<int32_t>(min(search.hint(TopkHint{0, 0}).code_step, 1e6f)) + 1;
    }
    hint_.code = team_.sum(code);
    hint_.code_step = static_cast<float>(team_.sum(step)) / static_cast<float>(last - first) * share;
  }

  __device__ void select(const Row& row) {
    const int32_t window = row.plane->window, candidates = row.end - row.begin;
    Cut cut{lowest + 1, 0, 0};
    TopkRow found{lowest, -1};
    if (window <= 0) {
      cut.least = highest;
      found.key = INT32_MAX;
    } else if (window < candidates) {
      if constexpr (team_warps > 1 && !streamed) {
        if (hint_.code_step == 0) guess(row, window, candidates);
      }
      TopkSearch search(window, candidates, lowest, highest);
      while (!search.done()) {
        const int32_t code = search.next(hint_);
        search.counted(code, team_.sum(count(row, code)));
      }
      hint_ = search.hint(hint_);
      if (search.exact()) {
        cut.least = search.low();
        found.key = cut.least - 1;
      } else if (!search.all()) {
        cut = {search.low(), search.low() + 1, window - search.count_high()};
        found = {search.low(), 0};
      }
    }
    int before = 0;  // ties among lower keys
    if (cut.ties > 0) {
      if constexpr (team_warps > 1) before = team_.sum_before(count(row, cut.least) - count(row, cut.above));
    } else if (team_.warp() == 0 && lane_ == 0 && row.plane->rows != nullptr) {
      row.plane->rows[row.q] = found;
    }
    if (cut.ties == 0 && params_.tiles.drafts == nullptr) return;
    each_segment(row, [&](int32_t from) {
      uint32_t kept[4];
      Keys::template words<chunks>(x_, cut.least, lane_, kept);
      if (cut.ties > 0) before = keep_ties(row, from, cut, before, kept);
      if (params_.tiles.drafts != nullptr) emit(row, from, kept);
    });
  }

  // Drops the ties beyond those that are kept; returns how many there were up to this segment's end.
  __device__ int keep_ties(const Row& row, int32_t from, const Cut& cut, int before, uint32_t (&kept)[4]) {
    uint32_t above[4];
    Keys::template words<chunks>(x_, cut.above, lane_, above);
    int mine = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) mine += __popc(kept[c] & ~above[c]);
    int sum = mine;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, sum, step);
      if (lane_ >= step) sum += other;
    }
    const int left = cut.ties - (before + sum - mine);  // for this lane and those after it
    if (left <= 0) {
#pragma unroll
      for (int c = 0; c < 4; ++c) kept[c] = above[c];
    } else if (left <= mine) {
      const int key = nth_tie(kept, above, left);
#pragma unroll
      for (int c = 0; c < 4; ++c) kept[c] = above[c] | (kept[c] & unit_columns_below(key + 1, c));
      if (row.plane->rows != nullptr) row.plane->rows[row.q] = {cut.least, from + lane_ * lane_keys + key};
    }
    return before + __shfl_sync(~0u, sum, 31);
  }

  // The lane's key that is its n-th tie, n from 1 on.
  __device__ static int nth_tie(const uint32_t (&kept)[4], const uint32_t (&above)[4], int n) {
    int key = 0;  // ties up to it are fewer than n
    for (int step = lane_keys / 2; step > 0; step /= 2) {
      int ties = 0;
#pragma unroll
      for (int c = 0; c < 4; ++c) ties += __popc(kept[c] & ~above[c] & unit_columns_below(key + step, c));
      if (ties < n) key += step;
    }
    return key;
  }

  // The segment's bits into the plan's tiles.
  __device__ void emit(const Row& row, int32_t from, uint32_t (&kept)[4]) {
    const TopkTiles& tiles = params_.tiles;
    const TopkPlane& plane = *row.plane;
    const int part = lane_ % unit_lanes;
    const int32_t column = (from + lane_ * lane_keys) / 128 * 128;  // the unit's first
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      kept[c] <<= 2 * groups * part;
#pragma unroll
      for (int other = 1; other < unit_lanes; other *= 2) kept[c] |= __shfl_xor_sync(~0u, kept[c], other);
    }
    if (plane.within.limits != nullptr) {
      const TopkLimits within = plane.within.limits[row.q * plane.within.step];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        kept[c] &= unit_columns_below(within.end - column, c) & ~unit_columns_below(within.begin - column, c);
    }
    if (plane.within.words != nullptr) {
      const uint4 within = words_of(plane.within, row, from);
      kept[0] &= within.x;
      kept[1] &= within.y;
      kept[2] &= within.z;
      kept[3] &= within.w;
    }
    // A token's word stands in the rows of all its heads.
    const int32_t heads = tiles.fold.heads(), first_line = row.q << tiles.fold.log2;
    const auto units = static_cast<uint32_t>(first_line) / 64, high = static_cast<uint32_t>(tiles.tile_m) / 64;
    const uint32_t m_block = high == 3 ? units / 3 : units >> (high / 2);
    const auto tile_row = plane.first_m_block + static_cast<int32_t>(m_block);
    if (tile_row != tile_row_) {
      tile_row_ = tile_row;
      const BuildDraft draft = tiles.drafts[tile_row];
      n_begin_ = n_end_ = 0;
      if (draft.num_runs > 0) {
        const Run stretch = tiles.draft_runs[draft.run_begin];
        n_begin_ = stretch.n_begin;
        n_end_ = stretch.n_end;
        first_tile_ = stretch.bits;
      }
    }
    const int32_t n = column / 128;
    if (part != 0 || n < n_begin_ || n >= n_end_) return;
    const int32_t tile = first_tile_ + n - n_begin_;
    int32_t line = first_line - static_cast<int32_t>(m_block) * tiles.tile_m;
    uint4* const unit = reinterpret_cast<uint4*>(tiles.bit_units) + int64_t{tile} * tiles.tile_m;
    for (int32_t head = 0; head < heads; ++head) unit[line + head] = make_uint4(kept[0], kept[1], kept[2], kept[3]);

    uint32_t any = 0, cut = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      any |= kept[c];
      cut |= ~kept[c];
    }
    uint32_t cut_inside = cut;
    if (plane.s_kv - column < 128) {
      cut_inside = 0;
#pragma unroll
      for (int c = 0; c < 4; ++c) cut_inside |= unit_columns_below(plane.s_kv - column, c) & ~kept[c];
    }
    flag(tile, line,
         (any != 0 ? unit_any : 0u) | (cut != 0 ? unit_cut : 0u) | (cut_inside != 0 ? unit_cut_inside : 0u));
    // Rows of the last tile that are not in the plane.
    if (row.q + 1 == plane.num_rows) {
      const int32_t beyond = line + heads;
      for (line = beyond; line < tiles.tile_m; ++line) {
        unit[line] = make_uint4(0, 0, 0, 0);
        if (line % 64 == 0 || line == beyond) flag(tile, line, unit_cut);
      }
    }
  }

  // Most of the time the row before has said it already.
  __device__ void flag(int32_t tile, int32_t line, uint32_t flags) {
    flags <<= 8 * (line / 64);
    if (tile == flagged_tile_ && (flags & ~flagged_) == 0) return;
    atomicOr(params_.tiles.unit_flags + tile, flags);
    flagged_ = tile == flagged_tile_ ? flagged_ | flags : flags;
    flagged_tile_ = tile;
  }

  const TopkParams& params_;
  Team<team_warps, cluster> team_;
  const int lane_;
  uint4* const slot_;
  TopkHint hint_{0, 0};
  uint4 among_{};                                                     // candidates among the keys that are copied
  int32_t tile_row_ = -1, n_begin_ = 0, n_end_ = 0, first_tile_ = 0;  // a row of tiles, and its mixed ones
  int32_t flagged_tile_ = -1;                                         // and what was said of it
  uint32_t flagged_ = 0;
  uint32_t x_[4 * chunks];
};

template <class Keys, int chunks, int team_warps, bool cluster, bool streamed>
__global__ void __launch_bounds__(32 * block_warps, 1) topk_select(const __grid_constant__ TopkParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  ptx::wait_for_previous();
  if constexpr (cluster) ptx::cluster_sync();  // no block stores into another that has not begun
  Selector<Keys, chunks, team_warps, cluster, streamed>(params, *reinterpret_cast<Shared<chunks>*>(memory)).run();
}

}  // namespace anymask::topk
