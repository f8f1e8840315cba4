// A band mask in a kernel's parameters: what keeps a row's keys is computed from it, and so is which item is which. No
// plan, nothing built on the device.
//
// A band keeps one interval of keys a row, and the intervals never move backward (PlaneMask::is_band()). Everything
// lies in one block of bytes, found by offsets: inside the parameters where it fits, else in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anymask {

// A BandEnd of mask/leaf.h in 32 bits, its arrays in the block.
struct BandTerm {
  int32_t form, a, size, low, high;
  uint32_t rows, values;  // offsets
  int32_t n;
};
struct BandLeaf {
  BandTerm begin, end;
};

// Postfix, without the skips: rows are evaluated one by one. At most two values are alive at once.
struct BandStep {
  uint8_t step;  // a Step
  uint8_t from_begin;
  uint16_t leaf;  // counted from the plane's first
};

struct BandPlane {
  int32_t s_q, s_kv;
  int32_t first_step, num_steps;
  int32_t first_leaf;
};

// Heads of a sequence whose items follow each other: K and V of a section stay in the second-level cache.
struct BandSection {
  int32_t first_item;
  int32_t sequence, first_head, heads;
  int32_t m_blocks;
  int32_t num_splits;  // pieces of each row of tiles
};

// Items: for each section its rows of tiles, the longest first, each for all its heads; of rows that are cut their
// pieces follow each other, and hold the slots that have their numbers. Rows of tiles are queries, or keys where the
// kernel keeps keys and passes over queries.
struct CudaBand {
  int32_t present;  // 0: the call has a plan instead
  int32_t num_items;

  // Sequences of one length: sections of so many pairs of sequence and head. Otherwise m_blocks is 0, and sections are
  // listed.
  int32_t m_blocks, num_splits, pairs, pairs_per_section, heads;
  int32_t num_sections;
  int32_t plane_heads;    // 1: the heads of a sequence share its plane
  int32_t first_to_last;  // 1: without `order`, rows of tiles go from the first to the last, else the other way

  // Offsets in the block; 0: none. order: rows of tiles by falling cost, [m_blocks] of one plane.
  // plane_of: [sequences][plane_heads]; none: all use plane 0.
  uint32_t planes, steps, leaves, plane_of, sections, order, sequences;

  const std::byte* data;  // the block in device memory; null: it is `bytes`
  static constexpr uint32_t inline_bytes = 2048;
  alignas(16) std::byte bytes[inline_bytes];
};

// A row's keys, or a key's rows, [begin, end); empty ones are {0, 0}.
struct KeyRange {
  int32_t begin, end;
};

}  // namespace anymask
