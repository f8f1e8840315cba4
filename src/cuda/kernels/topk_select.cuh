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
    const int many = params_.rows_at_once;
    int64_t number = int64_t{team_.index()} * many;
    if (number >= params_.num_rows) return;
    Row row = find(static_cast<int32_t>(number));
    if constexpr (!streamed) copy(row, base(0));
    while (true) {
      int64_t next = number + 1;
      if ((next & (many - 1)) == 0) next += int64_t{team_.teams() - 1} * many;
      const bool more = next < params_.num_rows;
      Row following{};
      if (more) following = find(static_cast<int32_t>(next));
      if constexpr (!streamed) {
        arrive(row, base(0));
        if (more) copy(following, base(0));
      }
      select(row);
      if (!more) break;
      row = following;
      number = next;
    }
  }

 private:
  __device__ int32_t base(int segment) const { return (team_.warp() * params_.segments + segment) * segment_keys; }

  __device__ Row find(int32_t number) const {
    int32_t p = 0;
    for (int32_t high = params_.num_planes; high - p > 1;) {
      const int32_t middle = (p + high) / 2;
      (params_.planes[middle].first_row <= number ? p : high) = middle;
    }
    const TopkPlane* const plane = params_.planes + p;
    Row row{plane, number - plane->first_row, 0, plane->s_kv};
    if (plane->among != nullptr) {
      const TopkLimits limits = plane->among[row.q];
      row.begin = max(limits.begin, 0);
      row.end = min(limits.end, plane->s_kv);
      if (row.begin >= row.end) row.begin = row.end = 0;
    }
    return row;
  }

  // Starts copying the segment's chunks that hold candidates; nothing is known of the rest.
  __device__ void copy(const Row& row, int32_t from) {
    const TopkPlane& plane = *row.plane;
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
    const int32_t begin = max(row.begin - from, 0), end = min(row.end - from, segment_keys);
    if (begin == 0 && end == segment_keys) {
      take([](int) { return true; });
    } else {
      // What lies beyond the limits in the chunks they cut.
      const int edge = lane_ < Keys::chunk_keys ? begin : end, within = lane_ % Keys::chunk_keys;
      const int key = edge / Keys::chunk_keys * Keys::chunk_keys + within;
      const bool outside = lane_ < Keys::chunk_keys ? key < begin : key >= end;
      if (lane_ < 2 * Keys::chunk_keys && begin < end && edge % Keys::chunk_keys != 0 && outside)
        reinterpret_cast<Element*>(slot_)[key] = static_cast<Element>(no_candidates);
      __syncwarp();
      take([&](int chunk) { return chunk * Keys::chunk_keys < end && (chunk + 1) * Keys::chunk_keys > begin; });
    }
    if (row.plane->among_words != nullptr) filter(row, from);
    __syncwarp();
  }

  template <class Holds>
  __device__ void take(Holds&& holds) {
    const int first = first_chunk<chunks>(lane_);
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int chunk = lane_ * chunks + (i + first) % chunks;
      uint4 four = make_uint4(no_candidates, no_candidates, no_candidates, no_candidates);
      if (holds(chunk)) four = slot_[chunk];
      x_[4 * i] = four.x;
      x_[4 * i + 1] = four.y;
      x_[4 * i + 2] = four.z;
      x_[4 * i + 3] = four.w;
    }
  }

  __device__ void filter(const Row& row, int32_t from) {
    const int32_t words = (row.plane->s_kv + 31) / 32;
    const uint32_t* const line = row.plane->among_words + int64_t{row.q} * words;
    const int first = first_chunk<chunks>(lane_);
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int32_t key = from + (lane_ * chunks + (i + first) % chunks) * Keys::chunk_keys;
      const uint32_t bits = key < row.plane->s_kv ? __ldg(line + key / 32) >> (key % 32) : 0u;
      uint32_t four[4] = {x_[4 * i], x_[4 * i + 1], x_[4 * i + 2], x_[4 * i + 3]};
      Keys::filter(four, bits);
#pragma unroll
      for (int c = 0; c < 4; ++c) x_[4 * i + c] = four[c];
    }
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
    int mine = 0;
    each_segment(row, [&](int32_t) { mine += Keys::template count<chunks>(x_, Keys::value(code)); });
    return __reduce_add_sync(~0u, mine);
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
        search.counted(next, __reduce_add_sync(~0u, Keys::template count<sampled>(x_, Keys::value(next))));
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
    } else if (team_.warp() == 0 && lane_ == 0) {
      row.plane->rows[row.q] = found;
    }
    if (cut.ties == 0 && params_.tiles.drafts == nullptr) return;
    each_segment(row, [&](int32_t from) {
      uint32_t kept[4];
      Keys::template words<chunks>(x_, Keys::value(cut.least), lane_, kept);
      if (cut.ties > 0) before = keep_ties(row, from, cut, before, kept);
      if (params_.tiles.drafts != nullptr) emit(row, from, kept);
    });
  }

  // Drops the ties beyond those that are kept; returns how many there were up to this segment's end.
  __device__ int keep_ties(const Row& row, int32_t from, const Cut& cut, int before, uint32_t (&kept)[4]) {
    uint32_t above[4];
    Keys::template words<chunks>(x_, Keys::value(cut.above), lane_, above);
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
      row.plane->rows[row.q] = {cut.least, from + lane_ * lane_keys + key};
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
    if (plane.within != nullptr) {
      const TopkLimits within = plane.within[row.q];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        kept[c] &= unit_columns_below(within.end - column, c) & ~unit_columns_below(within.begin - column, c);
    }
    const auto units = static_cast<uint32_t>(row.q) / 64, high = static_cast<uint32_t>(tiles.tile_m) / 64;
    const uint32_t m_block = high == 3 ? units / 3 : units >> (high / 2);
    const BuildDraft draft = tiles.drafts[plane.first_m_block + m_block];
    if (part != 0 || draft.num_runs == 0) return;
    const Run run = tiles.draft_runs[draft.run_begin];
    const int32_t n = column / 128;
    if (n < run.n_begin || n >= run.n_end) return;
    const int32_t tile = run.bits + n - run.n_begin;
    int32_t line = row.q - static_cast<int32_t>(m_block) * tiles.tile_m;
    const int32_t first = line;
    uint4* const unit = reinterpret_cast<uint4*>(tiles.bit_units) + int64_t{tile} * tiles.tile_m;
    unit[line] = make_uint4(kept[0], kept[1], kept[2], kept[3]);

    uint32_t any = 0, cut = 0, cut_inside = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      any |= kept[c];
      cut |= ~kept[c];
      cut_inside |= unit_columns_below(plane.s_kv - column, c) & ~kept[c];
    }
    flag(tile, line,
         (any != 0 ? unit_any : 0u) | (cut != 0 ? unit_cut : 0u) | (cut_inside != 0 ? unit_cut_inside : 0u));
    // Rows of the last tile that are not in the plane.
    if (row.q + 1 == plane.num_rows) {
      while (++line < tiles.tile_m) {
        unit[line] = make_uint4(0, 0, 0, 0);
        if (line % 64 == 0 || line == first + 1) flag(tile, line, unit_cut);
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
  int32_t flagged_tile_ = -1;  // and what was said of it
  uint32_t flagged_ = 0;
  uint32_t x_[4 * chunks];
};

template <class Keys, int chunks, int team_warps, bool cluster, bool streamed>
__global__ void __launch_bounds__(32 * block_warps, 1) topk_select(const __grid_constant__ TopkParams params) {
  extern __shared__ __align__(128) unsigned char memory[];
  if constexpr (cluster) ptx::cluster_sync();  // no block stores into another that has not begun
  Selector<Keys, chunks, team_warps, cluster, streamed>(params, *reinterpret_cast<Shared<chunks>*>(memory)).run();
}

}  // namespace anymask::topk
