// The walk over an item's runs, in steps of a few keys, ascending.
//
// A step never crosses a tile of 128 keys; steps wholly beyond s_kv are not taken. Every thread of a block walks for
// itself and gets the same answers. The runs are a plan's, or those of a band: at most three, cut, whole and cut.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/tile/band_rows.cuh"

namespace anymask {

// A band's runs: PARTIAL [at[0], at[1]), FULL [at[1], at[2]), PARTIAL [at[2], at[3]), in keys, or in rows where items
// are keys; each begins where a step does, and FULL steps may reach beyond the last.
struct alignas(16) BandRuns {
  int32_t at[4];

  __device__ __forceinline__ void set(const KeyBounds& keys, int32_t step, int32_t count) {
    if (keys.empty()) {
      at[0] = at[1] = at[2] = at[3] = 0;
      return;
    }
    const int32_t full_begin = (keys.full_begin + step - 1) / step * step;
    const int32_t full_end = keys.full_end == count ? count : keys.full_end / step * step;
    at[0] = keys.begin / step * step;
    at[1] = full_begin < full_end ? full_begin : keys.end;
    at[2] = full_begin < full_end ? full_end : keys.end;
    at[3] = keys.end;
  }
};

struct RunCursor {
  int32_t key, key_end;         // the step's first key; where its run ends, at most s_kv
  int32_t run;                  // the next to open
  int32_t bit_base, bit_slope;  // bit tile of tile n: bit_base + bit_slope * n; slope -1: FULL, none

  // A band's PARTIAL steps have bit tile 0, which is not there.
  __device__ __forceinline__ void start(const BandRuns& runs) {
    run = 0;
    open(runs);
  }
  __device__ __forceinline__ void advance(int32_t keys, const BandRuns& runs) {
    key += keys;
    if (key >= key_end) open(runs);
  }
  // `item` and `runs` in device memory.
  __device__ __forceinline__ void start(const CudaItem& item, const Run* runs, int32_t s_kv) {
    run = item.run_begin;
    open(item, runs, s_kv);
  }
  __device__ __forceinline__ bool done() const { return key >= key_end; }
  __device__ __forceinline__ bool full() const { return bit_slope < 0; }
  __device__ __forceinline__ int32_t bit_tile() const { return bit_base + bit_slope * (key / plan_tile_n); }
  __device__ __forceinline__ void advance(int32_t keys, const CudaItem& item, const Run* runs, int32_t s_kv) {
    key += keys;
    if (key >= key_end) open(item, runs, s_kv);
  }

 private:
  __device__ __forceinline__ void open(const BandRuns& runs) {
    key = key_end = bit_base = 0;
    while (run < 3 && key >= key_end) {
      key = runs.at[run];
      key_end = runs.at[run + 1];
      bit_slope = run == 1 ? -1 : 0;
      ++run;
    }
  }
  __device__ __forceinline__ void open(const CudaItem& item, const Run* runs, int32_t s_kv) {
    key = key_end = 0;
    while (run < item.run_end && key >= key_end) {
      const int4 words = __ldg(reinterpret_cast<const int4*>(runs + run));
      const int32_t begin = run == item.run_begin ? max(words.x, item.n_begin) : words.x;
      const int32_t end = run == item.run_end - 1 ? min(words.y, item.n_end) : words.y;
      const auto kind = static_cast<RunKind>(words.z);
      bit_slope = kind == RunKind::full ? -1 : kind == RunKind::partial ? 1 : 0;
      bit_base = kind == RunKind::partial ? words.w - words.x : words.w;
      key = begin * plan_tile_n;
      key_end = static_cast<int32_t>(min(static_cast<int64_t>(end) * plan_tile_n, static_cast<int64_t>(s_kv)));
      ++run;
    }
  }
};
static_assert(sizeof(Run) == 16, "a run is read as one 16-byte word");

}  // namespace anymask
