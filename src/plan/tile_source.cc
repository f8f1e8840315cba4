#include "plan/tile_source.h"

#include <algorithm>

#include "plan/plan_cache.h"

namespace anymask {
namespace {

bool all_bands(const BoundMask& mask) {
  return std::all_of(mask.planes.begin(), mask.planes.end(), [](const PlaneMask& plane) { return plane.is_band(); });
}

bool owns_arrays(const Mask& mask) {
  const std::vector<Array>& arrays = mask.program().arrays;
  return std::all_of(arrays.begin(), arrays.end(), [](const Array& array) { return array.owned(); });
}

}  // namespace

TileSource TileSource::make(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv,
                            const PlanRequest& request, const Workers& workers) {
  make_grid(PlaneMask{}, request);
  TileSource source;
  source.request_ = request;
  const bool caching = plan_cache().stats().limit_bytes > 0;
  PlanKey key;
  if (caching) {
    key = plan_key(mask, sequences, h_q, h_kv, request);
    if (std::optional<PlanEntry> entry = plan_cache().find(key)) {
      source.bands_ = std::move(entry->bands);
      source.plan_ = std::move(entry->plan);
      return source;
    }
  }
  BoundMask bound = anymask::bind(mask, sequences, h_q, h_kv, {}, workers);
  if (!all_bands(bound)) {
    source.plan_ = std::make_shared<const TilePlan>(build_plan(bound, request, workers));
  } else {
    // What the cache keeps outlives the call, so it must not refer to arrays the call only borrows. Bands hold offsets
    // at most: copying them is nothing.
    if (caching && !owns_arrays(mask)) bound = anymask::bind(Mask::from_bytes(mask.to_bytes()), sequences, h_q, h_kv);
    for (const PlaneMask& plane : bound.planes) make_grid(plane, request);  // lengths beyond the counters throw here
    source.bands_ = std::make_shared<const BoundMask>(std::move(bound));
  }
  if (caching) plan_cache().insert(std::move(key), {source.bands_, source.plan_});
  return source;
}

Grid TileSource::grid(int32_t plane) const {
  if (!plan_) return make_grid(bands_->planes[static_cast<size_t>(plane)], request_);
  const PlanPlane& p = plan_->planes[static_cast<size_t>(plane)];
  return {p.rows, p.cols, plan_->tile_m, plan_->tile_n, p.m_blocks, p.n_blocks, plan_->transposed};
}

int32_t TileSource::planes() const {
  return static_cast<int32_t>(plan_ ? plan_->planes.size() : bands_->planes.size());
}
int64_t TileSource::rows(int32_t plane) const { return grid(plane).rows; }
int64_t TileSource::cols(int32_t plane) const { return grid(plane).cols; }
int32_t TileSource::m_blocks(int32_t plane) const { return grid(plane).m_blocks; }
int32_t TileSource::n_blocks(int32_t plane) const { return grid(plane).n_blocks; }

void TileSource::row(int32_t plane, int32_t m_block, TileRow& out) const {
  out.words_per_tile_ = static_cast<size_t>(request_.tile_m) * static_cast<size_t>(request_.tile_n / 64);
  if (!plan_) {
    band_row(bands_->planes[static_cast<size_t>(plane)], grid(plane), m_block, out.band_);
    out.runs_ = out.band_.runs;
    out.pool_ = out.band_.bits.data();
    out.full_tiles = out.band_.full_tiles;
    out.partial_tiles = out.band_.partial_tiles;
    return;
  }
  const int64_t* row = plan_->row_begin.data() + plan_->planes[static_cast<size_t>(plane)].first_row + m_block;
  out.runs_ = {plan_->runs.data() + row[0], static_cast<size_t>(row[1] - row[0])};
  out.pool_ = plan_->bit_tiles.data();
  out.full_tiles = out.partial_tiles = 0;
  for (const Run& run : out.runs_)
    (run.kind == RunKind::full ? out.full_tiles : out.partial_tiles) += run.n_end - run.n_begin;
}

float TileSource::cost(int32_t plane, int32_t m_block) const {
  if (!plan_) {
    const auto [begin, end] = band_span(bands_->planes[static_cast<size_t>(plane)], grid(plane), m_block);
    return static_cast<float>(end - begin);
  }
  const int64_t* row = plan_->row_begin.data() + plan_->planes[static_cast<size_t>(plane)].first_row + m_block;
  int64_t tiles = 0;
  for (int64_t r = row[0]; r < row[1]; ++r) {
    tiles += plan_->runs[static_cast<size_t>(r)].n_end - plan_->runs[static_cast<size_t>(r)].n_begin;
  }
  return static_cast<float>(tiles);
}

std::pair<int32_t, int32_t> TileSource::touched(int32_t plane) const {
  const Grid g = grid(plane);
  if (!plan_) {  // ends are monotone: the first and the last row of tiles that list something decide
    const PlaneMask& mask = bands_->planes[static_cast<size_t>(plane)];
    std::pair<int32_t, int32_t> first{0, 0}, last{0, 0};
    for (int32_t m = 0; m < g.m_blocks && first.first == first.second; ++m) first = band_span(mask, g, m);
    for (int32_t m = g.m_blocks - 1; m >= 0 && last.first == last.second; --m) last = band_span(mask, g, m);
    return {first.first, last.second};
  }
  std::pair<int32_t, int32_t> range{g.n_blocks, 0};
  const int64_t* row_begin = plan_->row_begin.data() + plan_->planes[static_cast<size_t>(plane)].first_row;
  for (int32_t m = 0; m < g.m_blocks; ++m) {
    if (row_begin[m] == row_begin[m + 1]) continue;
    range.first = std::min(range.first, plan_->runs[static_cast<size_t>(row_begin[m])].n_begin);
    range.second = std::max(range.second, plan_->runs[static_cast<size_t>(row_begin[m + 1] - 1)].n_end);
  }
  return range.second == 0 ? std::pair<int32_t, int32_t>{0, 0} : range;
}

}  // namespace anymask
