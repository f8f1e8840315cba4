// Every kind of mask, one line each: X(function that gives its row). The order is that of the listing.
#pragma once

#define ANYMASK_KINDS(X)  \
  X(full_kind)            \
  X(none_kind)            \
  X(causal_kind)          \
  X(window_kind)          \
  X(keys_kind)            \
  X(positions_kind)       \
  X(prefix_kind)          \
  X(documents_kind)       \
  X(chunked_kind)         \
  X(stride_kind)          \
  X(shared_prefix_kind)   \
  X(tree_kind)            \
  X(blocks_kind)          \
  X(bits_kind)            \
  X(dense_kind)           \
  X(row_intervals_kind)   \
  X(col_intervals_kind)   \
  X(neighborhood_kind)    \
  X(block_diffusion_kind) \
  X(threshold_kind)
