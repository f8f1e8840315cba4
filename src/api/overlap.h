// Whether views share memory: outputs may not overlap inputs, each other or themselves.
#pragma once

#include "core/tensor.h"

namespace anymask {

// Whether some element of `a` shares a byte with some element of `b`. Exact for views of one buffer interleaved in
// regular ways, such as q, k, v in one [b, s, 3, h, d] tensor; views too irregular to decide cheaply count as
// overlapping.
bool overlap(const TensorView& a, const TensorView& b);

// Whether two index tuples of the view reach one element, or may. False for every permutation, slice or step of a
// contiguous tensor. Negative strides count as overlapping.
bool overlaps_itself(const TensorView& view);

}  // namespace anymask
