// What a leaf kind gives, on host and device alike: classify a rectangle, keep one pair, keep 64 keys at once.
// A kind's file defines a struct of static functions over LeafArgs, free of anything only a host has. Where classify
// may read long stretches of an array, `sketch` is the same, but coarser and in bounded time: what one thread of a
// device calls.
#pragma once

#include <cstdint>

#include "mask/program.h"

#if defined(__CUDACC__)
#define ANYMASK_HOST_DEVICE __host__ __device__ inline
#else
#define ANYMASK_HOST_DEVICE inline
#endif

namespace anymask {

enum class Kept : uint8_t { empty = 0, full = 1, partial = 2 };

// Rows [q_begin, q_end), keys [kv_begin, kv_end); never empty.
struct Rect {
  int64_t q_begin, q_end, kv_begin, kv_end;
};

// An interval of keys; empty when begin >= end.
struct Interval {
  int64_t begin, end;
};

// An end of a band's rows as a number of the row q alone, clamped to [low, high]. A kind that gives both of its ends so
// is evaluated by whoever reads them, without knowing it: `ends` of its struct, the same as its `interval`, where an
// end below its begin stands for the begin.
struct BandEnd {
  enum class Form : int32_t {
    line,     // q + a
    step,     // q + a < 0 ? low : high
    floor,    // q + a rounded down to a multiple of size
    stretch,  // q + a in [rows[i], rows[i + 1]): values[i]; low below them, high beyond
  };
  Form form = Form::line;
  int64_t a = 0, size = 1, low = 0, high = 0;
  const int64_t *rows = nullptr, *values = nullptr;
  int64_t n = 0;  // stretches
};
struct BandEnds {
  BandEnd begin, end;
};

// A leaf bound to one plane: lengths, its parameters, its arrays already moved to this plane's batch entry and head.
struct LeafArgs {
  Op op = Op::full;
  int64_t s_q = 0, s_kv = 0;
  int64_t shift = 0;      // position of row q: p = q + shift (s_kv - s_q, or 0 when aligned top-left)
  int64_t ints[16] = {};  // meaning: the kind's own file
  const void* data[4] = {};
  int64_t size[4] = {};  // meaning: the kind's own file
  int64_t stride[4][2] = {};
  uint8_t type[4] = {};  // DType of data[i]
};

// An array on a device as a leaf is to be made from it there: one or two axes, the leading ones dropped.
struct LeafSource {
  const void* data = nullptr;
  int64_t extent[2] = {1, 1}, stride[2] = {};  // elements
  int64_t limit = 0;                           // what values are brought back to: the length they count along
  int32_t bytes = 8;                           // an element: 1, or 4 and 8 for integers
  ANYMASK_HOST_DEVICE int64_t at(int64_t i, int64_t j = 0) const {
    const int64_t offset = i * stride[0] + j * stride[1];
    return bytes == 8   ? static_cast<const int64_t*>(data)[offset]
           : bytes == 4 ? static_cast<const int32_t*>(data)[offset]
                        : static_cast<const uint8_t*>(data)[offset];
  }
};

// The algebra of three values.
ANYMASK_HOST_DEVICE Kept kept_and(Kept a, Kept b) {
  if (a == Kept::empty || b == Kept::empty) return Kept::empty;
  return a == Kept::full && b == Kept::full ? Kept::full : Kept::partial;
}
ANYMASK_HOST_DEVICE Kept kept_or(Kept a, Kept b) {
  if (a == Kept::full || b == Kept::full) return Kept::full;
  return a == Kept::empty && b == Kept::empty ? Kept::empty : Kept::partial;
}
ANYMASK_HOST_DEVICE Kept kept_not(Kept a) {
  return a == Kept::partial ? a : a == Kept::full ? Kept::empty : Kept::full;
}

}  // namespace anymask
