#include "plan/balance.h"

#include <algorithm>
#include <cmath>

namespace anymask {
namespace {

int64_t num_pieces(int64_t tiles, float split_cost) {
  if (split_cost <= 0 || static_cast<double>(tiles) <= split_cost) return 1;
  const double at_most = std::max(1.0, std::floor(static_cast<double>(split_cost)));
  return static_cast<int64_t>(std::ceil(static_cast<double>(tiles) / at_most));
}

// The first tile of a piece, counted among the row's listed tiles.
int64_t piece_begin(int64_t tiles, int64_t piece, int64_t pieces) {
  return tiles / pieces * piece + std::min(piece, tiles % pieces);
}

}  // namespace

std::vector<WorkItem> balance(std::span<const RowCost> rows, float split_cost) {
  std::vector<WorkItem> items;
  items.reserve(rows.size());
  for (const RowCost& row : rows) {
    const int64_t pieces = num_pieces(row.tiles, split_cost);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      WorkItem item;
      item.plane = row.plane;
      item.m_block = row.m_block;
      item.split = static_cast<int32_t>(piece);
      item.num_splits = static_cast<int32_t>(pieces);
      item.cost = static_cast<float>(piece_begin(row.tiles, piece + 1, pieces) - piece_begin(row.tiles, piece, pieces));
      items.push_back(item);
    }
  }
  std::stable_sort(items.begin(), items.end(), [](const WorkItem& a, const WorkItem& b) { return a.cost > b.cost; });
  return items;
}

void locate(std::span<const Run> runs, WorkItem& item) {
  int64_t tiles = 0;
  for (const Run& run : runs) tiles += run.n_end - run.n_begin;
  const int64_t begin = piece_begin(tiles, item.split, item.num_splits);
  const int64_t end = piece_begin(tiles, item.split + 1, item.num_splits);
  item.run_begin = item.run_end = item.n_begin = item.n_end = 0;
  item.cost = static_cast<float>(end - begin);
  int64_t before = 0;  // tiles in earlier runs
  for (size_t r = 0; r < runs.size() && before < end; ++r) {
    const int64_t length = runs[r].n_end - runs[r].n_begin;
    if (begin < end && before + length > begin) {
      if (item.run_end == 0) {
        item.run_begin = static_cast<int32_t>(r);
        item.n_begin = runs[r].n_begin + static_cast<int32_t>(begin - before);
      }
      item.run_end = static_cast<int32_t>(r + 1);
      item.n_end = runs[r].n_begin + static_cast<int32_t>(std::min(length, end - before));
    }
    before += length;
  }
}

}  // namespace anymask
