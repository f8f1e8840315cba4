// The walk over an item's runs, in steps of a few keys, ascending.
//
// A step never crosses a tile of 128 keys; steps wholly beyond s_kv are not taken. Every thread of a block walks for
// itself and gets the same answers.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"

namespace anymask {

struct RunCursor {
  int32_t key, key_end;         // the step's first key; where its run ends, at most s_kv
  int32_t run;                  // the next to open
  int32_t bit_base, bit_slope;  // bit tile of tile n: bit_base + bit_slope * n; slope -1: FULL, none

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
