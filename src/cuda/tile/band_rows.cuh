// Rows of a band: the keys each of them keeps, and keys: the rows that keep each of them, from the steps in the
// kernel's parameters; and what a step of the other axis means to a tile of rows or keys. No kind of mask is known
// here: kinds give their ends in one of a few forms (BandEnd, mask/leaf.h).
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/tile/item_source.cuh"
#include "mask/plane_steps.h"

namespace anymask {

// Members are loaded one by one where they are used: few registers are left to those who evaluate bands.

// End number `term` of the leaves: their begins have even numbers.
__device__ __forceinline__ int32_t band_end(const CudaBand& band, int32_t term, int32_t q) {
  const auto load = [&](uint32_t member) {
    return band_load<int32_t>(band, band.leaves + static_cast<uint32_t>(term) * uint32_t{sizeof(BandTerm)} + member, 0);
  };
  int32_t x = q + load(offsetof(BandTerm, a));
  const auto form = static_cast<BandEnd::Form>(load(offsetof(BandTerm, form)));
  if (form == BandEnd::Form::step) {
    x = x < 0 ? load(offsetof(BandTerm, low)) : load(offsetof(BandTerm, high));
  } else if (form == BandEnd::Form::floor) {
    const int32_t size = load(offsetof(BandTerm, size)), quotient = x / size;
    x = (x - quotient * size < 0 ? quotient - 1 : quotient) * size;
  } else if (form == BandEnd::Form::stretch) {
    // rows[low] <= x < rows[high], as if there were two more.
    const auto rows = static_cast<uint32_t>(load(offsetof(BandTerm, rows)));
    int32_t low = -1;
#pragma unroll 1
    for (int32_t high = load(offsetof(BandTerm, n)) + 1; high - low > 1;) {
      const int32_t middle = (low + high) >> 1;
      if (band_load<int32_t>(band, rows, middle) <= x) {
        low = middle;
      } else {
        high = middle;
      }
    }
    if (low < 0) {
      x = load(offsetof(BandTerm, low));
    } else if (low >= load(offsetof(BandTerm, n))) {
      x = load(offsetof(BandTerm, high));
    } else {
      x = band_load<int32_t>(band, static_cast<uint32_t>(load(offsetof(BandTerm, values))), low);
    }
  }
  return min(max(x, load(offsetof(BandTerm, low))), load(offsetof(BandTerm, high)));
}

// The number of the plane that a head of a sequence uses.
__device__ __forceinline__ int32_t band_plane(const CudaBand& band, int32_t sequence, int32_t head) {
  if (band.plane_of == 0) return 0;
  return band_load<int32_t>(band, band.plane_of, sequence * band.plane_heads + (band.plane_heads == 1 ? 0 : head));
}

// The keys of row q, which is inside the plane: the algebra of mask/plane_steps.h.
__device__ __forceinline__ KeyRange band_row(const CudaBand& band, int32_t plane, int32_t q) {
  const auto load = [&](uint32_t member) {
    return band_load<int32_t>(band, band.planes + static_cast<uint32_t>(plane) * uint32_t{sizeof(BandPlane)} + member,
                              0);
  };
  KeyRange below{0, 0}, last{0, 0};
#pragma unroll 1
  for (int32_t i = load(offsetof(BandPlane, first_step)), end = i + load(offsetof(BandPlane, num_steps)); i < end;
       ++i) {
    const auto step = band_load<BandStep>(band, band.steps, i);
    switch (static_cast<Step>(step.step)) {
      case Step::leaf: {
        below = last;
        const int32_t begin = 2 * (load(offsetof(BandPlane, first_leaf)) + step.leaf);
        last.begin = band_end(band, begin, q);
        last.end = max(last.begin, band_end(band, begin + 1, q));
        break;
      }
      case Step::full:
      case Step::empty:
        below = last;
        last = {0, static_cast<Step>(step.step) == Step::full ? load(offsetof(BandPlane, s_kv)) : 0};
        break;
      case Step::op_not:
        last = step.from_begin ? KeyRange{last.end, load(offsetof(BandPlane, s_kv))} : KeyRange{0, last.begin};
        break;
      case Step::op_and:
        last.begin = max(below.begin, last.begin);
        last.end = max(last.begin, min(below.end, last.end));
        break;
      default:  // op_or
        last = {min(below.begin, last.begin), max(below.end, last.end)};
    }
  }
  return last.begin < last.end ? last : KeyRange{0, 0};
}

// The first row whose end number `term` is beyond `key`; s_q: none. Ends never move backward, and each form can be
// asked this as directly as for its value.
__device__ __forceinline__ int32_t band_first_beyond(const CudaBand& band, int32_t term, int32_t key, int32_t s_q) {
  const auto load = [&](uint32_t member) {
    return band_load<int32_t>(band, band.leaves + static_cast<uint32_t>(term) * uint32_t{sizeof(BandTerm)} + member, 0);
  };
  if (load(offsetof(BandTerm, high)) <= key) return s_q;
  if (load(offsetof(BandTerm, low)) > key) return 0;
  const auto form = static_cast<BandEnd::Form>(load(offsetof(BandTerm, form)));
  int32_t x = key + 1;  // what q + a has to reach
  if (form == BandEnd::Form::step) {
    x = 0;
  } else if (form == BandEnd::Form::floor) {
    const int32_t size = load(offsetof(BandTerm, size));
    x = (key / size + 1) * size;
  } else if (form == BandEnd::Form::stretch) {
    // values[low] <= key < values[high], as if there were two more: what is beyond all stretches is `high`.
    const auto values = static_cast<uint32_t>(load(offsetof(BandTerm, values)));
    int32_t low = -1, high = load(offsetof(BandTerm, n));
#pragma unroll 1
    while (high - low > 1) {
      const int32_t middle = (low + high) >> 1;
      if (band_load<int32_t>(band, values, middle) <= key) {
        low = middle;
      } else {
        high = middle;
      }
    }
    x = band_load<int32_t>(band, static_cast<uint32_t>(load(offsetof(BandTerm, rows))), high);
  }
  return min(max(x - load(offsetof(BandTerm, a)), 0), s_q);
}

// The rows that keep `key`, which is inside the plane: from the first whose end is beyond it up to the first whose
// begin is. The algebra of band_row, where x > key of a maximum is asked of either, of a minimum of both.
__device__ __forceinline__ KeyRange band_column(const CudaBand& band, int32_t plane, int32_t key) {
  const auto load = [&](uint32_t member) {
    return band_load<int32_t>(band, band.planes + static_cast<uint32_t>(plane) * uint32_t{sizeof(BandPlane)} + member,
                              0);
  };
  const int32_t s_q = load(offsetof(BandPlane, s_q));
  KeyRange below{0, 0},
      last{0, 0};  // rows: the end of a row's keys is beyond the key from `begin` on, their begin from `end`
#pragma unroll 1
  for (int32_t i = load(offsetof(BandPlane, first_step)), end = i + load(offsetof(BandPlane, num_steps)); i < end;
       ++i) {
    const auto step = band_load<BandStep>(band, band.steps, i);
    switch (static_cast<Step>(step.step)) {
      case Step::leaf: {
        below = last;
        const int32_t begin = 2 * (load(offsetof(BandPlane, first_leaf)) + step.leaf);
        last.end = band_first_beyond(band, begin, key, s_q);
        last.begin = min(last.end, band_first_beyond(band, begin + 1, key, s_q));
        break;
      }
      case Step::full:
      case Step::empty:
        below = last;
        last = {static_cast<Step>(step.step) == Step::full ? 0 : s_q, s_q};
        break;
      case Step::op_not:
        last = step.from_begin ? KeyRange{0, last.begin} : KeyRange{last.end, s_q};
        break;
      case Step::op_and:
        last.end = min(below.end, last.end);
        last.begin = min(last.end, max(below.begin, last.begin));
        break;
      default:  // op_or
        last = {min(below.begin, last.begin), max(below.end, last.end)};
    }
  }
  return last.begin < last.end ? last : KeyRange{0, 0};
}

// What rows keep together: some row keeps something of [begin, end) alone, and all of them keep [full_begin, full_end),
// which may be empty.
struct alignas(16) KeyBounds {
  int32_t begin, full_begin, full_end, end;
  __device__ __forceinline__ void join(const KeyBounds& other) {
    begin = min(begin, other.begin);
    full_begin = max(full_begin, other.full_begin);
    full_end = min(full_end, other.full_end);
    end = max(end, other.end);
  }
  __device__ __forceinline__ bool empty() const { return begin >= end; }
  // A piece's share of the tiles, as a plan's pieces have theirs.
  __device__ __forceinline__ void clip(int32_t split, int32_t num_splits) {
    if (empty() || num_splits <= 1) return;
    const int32_t first = begin / plan_tile_n;
    const auto tiles = static_cast<uint32_t>((end - 1) / plan_tile_n + 1 - first);  // below 2^22; pieces: up to 2^9
    const auto before = [&](int32_t pieces) {
      return (first + static_cast<int32_t>(tiles * static_cast<uint32_t>(pieces) / static_cast<uint32_t>(num_splits))) *
             plan_tile_n;
    };
    begin = max(begin, before(split));
    end = min(end, before(split + 1));
    full_begin = max(full_begin, begin);
    full_end = min(full_end, end);
  }
};
__device__ __forceinline__ KeyBounds bounds_of(const KeyRange& row) {
  const bool keeps = row.begin < row.end;
  return {keeps ? row.begin : INT_MAX, row.begin, row.end, row.end};
}
// Of the rows of a whole warp, in all lanes.
__device__ __forceinline__ KeyBounds warp_bounds(const KeyBounds& mine) {
  return {__reduce_min_sync(0xffffffffu, mine.begin), __reduce_max_sync(0xffffffffu, mine.full_begin),
          __reduce_min_sync(0xffffffffu, mine.full_end), __reduce_max_sync(0xffffffffu, mine.end)};
}

}  // namespace anymask
