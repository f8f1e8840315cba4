// Which rows see a place of a list, where the candidates of all of its rows begin at one key: they only grow from row
// to row, so a key that is kept from some row on is kept until `window` better ones have come, and never again.
//
// A block a list. Its places are sorted, best first; the first `window` of them by key are kept; each further one, if
// it is better than the worst of these, takes its place. That walk is one thread's, a bit a place and about 100 cycles
// a key that comes later: of 64 Ki keys, window 4,096 and 2,112 rows some 260, in early rows up to 2,112.
#pragma once

#include "cuda/gather_params.h"
#include "mask/kinds/bias_codes.h"

namespace anymask::gather {

inline constexpr int column_threads = 1024;

struct Columns {
  static constexpr uint16_t nobody = 0xffff;
  uint64_t order[most_columns];     // best first: 2^31 - 1 - code, then the place, so that ties go to the lower key
  uint16_t rank[most_columns];      // of a place, in `order`
  uint16_t replaces[most_columns];  // by place: who comes in its stead, or itself where it is never kept
  uint32_t kept[most_columns / 32];
};
static_assert(sizeof(Columns) <= 99 * 1024, "a block of any device since 8.0");

// Ascending, by the block. `size` is a power of two.
__device__ inline void sort(uint64_t* values, int32_t size) {
  for (int32_t run = 2; run <= size; run *= 2) {
    for (int32_t step = run / 2; step > 0; step /= 2) {
      for (int32_t pair = threadIdx.x; pair < size / 2; pair += column_threads) {
        const int32_t low = pair / step * 2 * step + pair % step;
        const uint64_t a = values[low], b = values[low + step];
        if ((a > b) == ((low & run) == 0)) {
          values[low] = b;
          values[low + step] = a;
        }
      }
      __syncthreads();
    }
  }
}

__device__ inline void walk(Columns& s, int32_t window, int32_t count) {
  int32_t word = (count - 1) / 32;
  for (int32_t place = window; place < count; ++place) {
    while (s.kept[word] == 0) --word;
    const int32_t bit = 31 - __clz(static_cast<int>(s.kept[word])), worst = 32 * word + bit, rank = s.rank[place];
    if (rank > worst) {
      s.replaces[place] = static_cast<uint16_t>(place);
      continue;
    }
    s.kept[word] ^= 1u << bit;
    s.kept[rank / 32] |= 1u << (rank % 32);
    s.replaces[static_cast<uint16_t>(s.order[worst])] = static_cast<uint16_t>(place);
  }
}

// Rows before the first whose candidates hold the place.
__device__ inline int32_t rows_without(const GatherPlane& plane, int32_t place) {
  int32_t low = 0;
  for (int32_t high = plane.lines; low < high;) {
    const int32_t middle = (low + high) / 2;
    if (plane.among_ends[middle] <= place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Blocks of planes.
__global__ void __launch_bounds__(column_threads) gather_columns(const __grid_constant__ GatherParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& s = *reinterpret_cast<Columns*>(memory);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (auto index = static_cast<int32_t>(blockIdx.x); index < p.num_planes; index += static_cast<int32_t>(gridDim.x)) {
    const GatherPlane& plane = p.planes[index];
    const int32_t count = *plane.count, window = p.selected[plane.source].window;
    int32_t size = 1;
    while (size < count) size *= 2;
    for (int32_t i = thread; i < size; i += column_threads) {
      uint64_t key = ~uint64_t{0};
      if (i < count) {
        const int32_t code = plane.bytes == 2 ? BiasCodes::code(static_cast<const uint16_t*>(plane.values)[i])
                                              : BiasCodes::code(static_cast<const uint32_t*>(plane.values)[i]);
        key = uint64_t{0x7fffffffu - static_cast<uint32_t>(code)} << 32 | static_cast<uint32_t>(i);
      }
      s.order[i] = key;
      s.replaces[i] = Columns::nobody;
    }
    for (int32_t i = thread; i < most_columns / 32; i += column_threads) s.kept[i] = 0;
    __syncthreads();
    sort(s.order, size);
    for (int32_t i = thread; i < count; i += column_threads) {
      const auto place = static_cast<int32_t>(static_cast<uint16_t>(s.order[i]));
      s.rank[place] = static_cast<uint16_t>(i);
      if (place < window) atomicOr(&s.kept[i / 32], 1u << (i % 32));
    }
    __syncthreads();
    if (thread == 0) walk(s, window, count);
    __syncthreads();
    for (int32_t place = thread; place < plane.width; place += column_threads) {
      const bool listed = place < count;
      const int32_t next = listed ? s.replaces[place] : 0;
      plane.enters[place] = listed ? rows_without(plane, place) : 0;
      plane.leaves[place] = !listed ? 0 : next == Columns::nobody ? plane.lines : rows_without(plane, next);
    }
    __syncthreads();
  }
}

}  // namespace anymask::gather
