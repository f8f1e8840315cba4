// Every kind of mask, one line each: X(name, struct). The name is its Op, its header's file and, with _kind, the
// function that gives its row. The order is that of the listing.
#pragma once

#define ANYMASK_KINDS(X)             \
  X(full, Full)                      \
  X(none, None)                      \
  X(causal, Causal)                  \
  X(window, Window)                  \
  X(keys, Keys)                      \
  X(positions, Positions)            \
  X(prefix, Prefix)                  \
  X(documents, Documents)            \
  X(chunked, Chunked)                \
  X(stride, Stride)                  \
  X(shared_prefix, SharedPrefix)     \
  X(tree, Tree)                      \
  X(blocks, Blocks)                  \
  X(bits, Bits)                      \
  X(dense, Dense)                    \
  X(row_intervals, RowIntervals)     \
  X(col_intervals, ColIntervals)     \
  X(neighborhood, Neighborhood)      \
  X(block_diffusion, BlockDiffusion) \
  X(threshold, Threshold)            \
  X(topk, Topk)
