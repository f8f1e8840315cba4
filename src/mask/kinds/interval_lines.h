// Host side of the interval kinds: reading lists of intervals into the table of interval_table.h.
#pragma once

#include <span>

#include "mask/kind.h"

namespace anymask {

// Arguments 0 and 1 are begin and end: [lines], [lines, n], or [b or 1, heads or 1, lines, n].
void check_interval_lines(const LeafArguments& in);
// `lines` of them (or one for all) over [0, extent); names as messages spell them.
void bind_interval_lines(const LeafArguments& in, const PlaneContext& plane, int64_t lines, const char* lines_name,
                         int64_t extent, BoundLeaf& leaf);
Mask random_interval_lines(const char* kind, std::mt19937_64& rng, const ExampleShape& shape, int64_t lines,
                           int64_t extent);

}  // namespace anymask
