// What the tests of plans share: planes from text, the plain definition of a plan, and comparison with it.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "mask/bound_mask.h"
#include "mask/registry.h"
#include "plan/builder.h"
#include "plan/tile_plan.h"
#include "plan/tile_source.h"

namespace anymask {

inline std::vector<Sequence> sequences_of(int64_t batch, int64_t s_q, int64_t s_kv) {
  std::vector<Sequence> sequences(static_cast<size_t>(batch));
  for (int64_t i = 0; i < batch; ++i) sequences[static_cast<size_t>(i)] = {i, 0, s_q, 0, s_kv};
  return sequences;
}

inline BoundMask bind_one(const Mask& mask, int64_t s_q, int64_t s_kv) {
  return anymask::bind(mask, sequences_of(1, s_q, s_kv), 1, 1);
}

inline Array named(const std::string& name, std::vector<int64_t> values) { return Array::own(std::move(values), name); }

// A rank-2 array of 8-byte integers.
Array table(const std::string& name, const std::vector<int64_t>& values, int64_t rows, int64_t cols);
// A rank-2 boolean array.
Array booleans(const std::string& name, const std::vector<uint8_t>& values, int64_t rows, int64_t cols);

// Random offsets of documents, empty ones among them, ending at `length`.
std::vector<int64_t> random_offsets(std::mt19937_64& rng, int64_t length, int64_t documents);

// Which pairs a plane keeps, asked one by one: row-major over (m, n) of the orientation.
std::vector<uint8_t> pairs_of(const PlaneMask& plane, bool transposed);

// One row of tiles against the definition: `pairs` of pairs_of, rows x cols. Runs ascend, are maximal, list no empty
// tile, call FULL exactly what is, and their bits are the pairs, 0 beyond the plane. Returns kept pairs.
int64_t check_row(const TileRow& row, const std::vector<uint8_t>& pairs, const Grid& grid, int32_t m_block);

// The plan's own form of the same: numbering and grouping of bit tiles, counts, statistics, work.
void check_plan(const TilePlan& plan, const BoundMask& mask, const PlanRequest& request);

}  // namespace anymask
