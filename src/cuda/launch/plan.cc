#include "cuda/launch/plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "cuda/launch/carve.h"
#include "cuda/launch/device.h"
#include "mask/bound_mask.h"
#include "plan/builder.h"

namespace anymask {
namespace {

constexpr int32_t tile_n = 128;

// Columns 8 g + 2 c + j of a row, g = 0..15, as bits 2 g + j.
uint32_t quarter(uint64_t low, uint64_t high, int c) {
  uint32_t word = 0;
  for (int g = 0; g < 8; ++g) {
    word |= static_cast<uint32_t>(low >> (8 * g + 2 * c) & 3u) << (2 * g);
    word |= static_cast<uint32_t>(high >> (8 * g + 2 * c) & 3u) << (16 + 2 * g);
  }
  return word;
}

// In tiles; a PARTIAL tile reads bits and masks.
float cost(std::span<const Run> runs) {
  float tiles = 0;
  for (const Run& run : runs)
    tiles += static_cast<float>(run.n_end - run.n_begin) * (run.kind == RunKind::full ? 1.0f : 1.1f);
  return tiles;
}

// Loading Q, the first softmax and the epilogue of an item cost about this many tiles.
constexpr float item_cost = 1.5f;
constexpr int64_t shortest_piece = 4;
// K and V of the heads that run together: what stays in the second-level cache beside everything else.
constexpr double section_bytes = 16e6;

}  // namespace

struct CudaPlanSource::Parts {
  PlanShape shape;
  std::vector<CudaItem> items;
  std::vector<Run> runs;
  std::vector<uint32_t> bit_units, tile_kinds;
  int32_t num_items = 0, partial_slots = 0;

  void make_bits(const TilePlan& plan);
  void make_items(const TilePlan& plan, const AttentionProblem& problem);
  void split_items(double total);
  void sort_items(const AttentionProblem& problem, int64_t heads);
  std::span<const Run> runs_of(const CudaItem& item) const {
    return std::span(runs).subspan(static_cast<size_t>(item.run_begin),
                                   static_cast<size_t>(item.run_end - item.run_begin));
  }

  // The arrays' places in device memory, from `base` (null: only their size counts).
  struct Places {
    int32_t* num_items;
    CudaItem* items;
    Run* runs;
    uint32_t *bit_units, *tile_kinds;
    size_t bytes;
  };
  Places places(void* base) const {
    Carve carve(base);
    Places at{};
    at.num_items = carve.take<int32_t>(1);
    at.items = carve.take<CudaItem>(items.size());
    at.runs = carve.take<Run>(runs.size());
    at.bit_units = carve.take<uint32_t>(bit_units.size());
    at.tile_kinds = carve.take<uint32_t>(tile_kinds.size());
    at.bytes = carve.bytes();
    return at;
  }
};

void CudaPlanSource::Parts::make_bits(const TilePlan& plan) {
  const size_t units_per_tile = static_cast<size_t>(shape.tile_m) / 64;
  const size_t tiles = plan.bit_tiles.size() / plan.words_per_tile();
  bit_units.resize(tiles * units_per_tile * 256);
  tile_kinds.resize(tiles);
  for (size_t unit = 0; unit < tiles * units_per_tile; ++unit) {
    const uint64_t* rows = plan.bit_tiles.data() + unit * 128;
    uint64_t any = 0, all = ~uint64_t{0};
    for (size_t r = 0; r < 64; ++r) {
      any |= rows[2 * r] | rows[2 * r + 1];
      all &= rows[2 * r] & rows[2 * r + 1];
      for (int c = 0; c < 4; ++c)
        bit_units[unit * 256 + r * 4 + static_cast<size_t>(c)] = quarter(rows[2 * r], rows[2 * r + 1], c);
    }
    const uint32_t kind = any == 0 ? 0 : all == ~uint64_t{0} ? 1 : 2;
    tile_kinds[unit / units_per_tile] |= kind << (2 * (unit % units_per_tile));
  }
}

// One item for each row of tiles of each head of each sequence, those of an empty row too.
void CudaPlanSource::Parts::make_items(const TilePlan& plan, const AttentionProblem& problem) {
  const int64_t heads = shape.per_kv_head ? problem.h_kv : problem.h_q, group = problem.h_q / heads;
  double total = 0;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    for (int64_t head = 0; head < heads; ++head) {
      const auto plane = static_cast<size_t>(plan.plane(static_cast<int64_t>(s), head * group));
      const int64_t* row_begin = plan.row_begin.data() + plan.planes[plane].first_row;
      for (int32_t m = 0; m < plan.planes[plane].m_blocks; ++m) {
        CudaItem item{};
        item.sequence = static_cast<int32_t>(s);
        item.head = static_cast<int32_t>(head);
        item.m_block = m;
        item.run_begin = static_cast<int32_t>(row_begin[m]);
        item.run_end = static_cast<int32_t>(row_begin[m + 1]);
        if (item.run_begin < item.run_end) {
          item.n_begin = runs[static_cast<size_t>(item.run_begin)].n_begin;
          item.n_end = runs[static_cast<size_t>(item.run_end) - 1].n_end;
        }
        item.num_splits = 1;
        items.push_back(item);
        total += item_cost + cost(runs_of(item));
      }
    }
  }
  if (items.size() > INT32_MAX / 2 || runs.size() > INT32_MAX)
    fail_unsupported("attention: the mask's plan has ", items.size(), " rows of tiles and ", runs.size(),
                     " runs; the CUDA backend counts up to 2^30: split the batch");
  if (shape.parallelism > 0) split_items(total);
  sort_items(problem, heads);
}

// Rows costlier than half of what a block has to do are cut at tile borders into near-equal pieces.
void CudaPlanSource::Parts::split_items(double total) {
  const auto limit = std::max<double>(2.0 * static_cast<double>(shortest_piece),
                                      total / (2.0 * static_cast<double>(shape.parallelism)));
  std::vector<CudaItem> pieces;
  for (const CudaItem& item : items) {
    int64_t tiles = 0;
    for (const Run& run : runs_of(item)) tiles += run.n_end - run.n_begin;
    const int64_t num = std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(tiles) / limit + 0.999), 1,
                                            std::max<int64_t>(1, tiles / shortest_piece));
    if (num == 1) {
      pieces.push_back(item);
      continue;
    }
    int64_t done = 0;
    int32_t run = item.run_begin, n = item.n_begin;
    for (int64_t split = 0; split < num; ++split) {
      CudaItem piece = item;
      piece.split = static_cast<int32_t>(split);
      piece.num_splits = static_cast<int32_t>(num);
      piece.partial = partial_slots;
      piece.run_begin = run;
      piece.n_begin = n;
      int64_t take = tiles * (split + 1) / num - done;
      done += take;
      for (;;) {
        const Run& r = runs[static_cast<size_t>(run)];
        const int64_t here = std::min<int64_t>(take, r.n_end - n);
        take -= here;
        n += static_cast<int32_t>(here);
        piece.n_end = n;
        piece.run_end = run + 1;
        if (n == r.n_end && run + 1 < item.run_end) n = runs[static_cast<size_t>(++run)].n_begin;
        if (take == 0) break;
      }
      pieces.push_back(piece);
    }
    partial_slots += static_cast<int32_t>(num);
  }
  items = std::move(pieces);
}

// Longest first; heads in sections whose K and V share the second-level cache, so that a section's rows run together.
void CudaPlanSource::Parts::sort_items(const AttentionProblem& problem, int64_t heads) {
  struct Key {
    int64_t section;
    float cost;
    uint32_t index;
  };
  std::vector<Key> keys(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const CudaItem& item = items[i];
    const double bytes = 2.0 * static_cast<double>(problem.d_qk + problem.d_v) *
                         static_cast<double>(problem.sequences[static_cast<size_t>(item.sequence)].s_kv);
    const auto kv_heads = std::max<int64_t>(1, static_cast<int64_t>(section_bytes / std::max(bytes, 1.0)));
    const int64_t kv_head = item.sequence * problem.h_kv + item.head * problem.h_kv / heads;
    float tiles = 0;
    for (const Run& run : runs_of(item)) {
      const int32_t begin = std::max(run.n_begin, item.n_begin), end = std::min(run.n_end, item.n_end);
      tiles += static_cast<float>(std::max(0, end - begin)) * (run.kind == RunKind::full ? 1.0f : 1.1f);
    }
    keys[i] = {kv_head / kv_heads, tiles, static_cast<uint32_t>(i)};
  }
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return a.section != b.section ? a.section < b.section : a.cost > b.cost;
  });
  std::vector<CudaItem> sorted;
  sorted.reserve(items.size());
  for (const Key& key : keys) sorted.push_back(items[key.index]);
  items = std::move(sorted);
  num_items = static_cast<int32_t>(items.size());
}

CudaPlanSource::CudaPlanSource(const Mask& mask, const AttentionProblem& problem, const PlanShape& shape,
                               const CudaDevice&)
    : parts_(std::make_unique<Parts>()) {
  const BoundMask bound = anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv);
  TilePlan plan = build_plan(bound, {.tile_m = shape.tile_m, .tile_n = tile_n, .transposed = shape.transposed});
  parts_->shape = shape;
  parts_->runs = std::move(plan.runs);
  parts_->make_bits(plan);
  parts_->make_items(plan, problem);
}
CudaPlanSource::~CudaPlanSource() = default;

size_t CudaPlanSource::bytes() const { return parts_->places(nullptr).bytes; }
int32_t CudaPlanSource::partial_slots() const { return parts_->partial_slots; }
int64_t CudaPlanSource::max_items() const { return parts_->num_items; }

CudaPlan CudaPlanSource::enqueue(void* memory, cudaStream_t stream) const {
  const Parts& p = *parts_;
  const Parts::Places at = p.places(memory);
  const auto upload = [stream](void* to, const void* from, size_t bytes) {
    if (bytes > 0) check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "uploading a plan");
  };
  upload(at.num_items, &p.num_items, sizeof p.num_items);
  upload(at.items, p.items.data(), p.items.size() * sizeof(CudaItem));
  upload(at.runs, p.runs.data(), p.runs.size() * sizeof(Run));
  upload(at.bit_units, p.bit_units.data(), p.bit_units.size() * 4);
  upload(at.tile_kinds, p.tile_kinds.data(), p.tile_kinds.size() * 4);
  return {p.shape.tile_m, tile_n, at.num_items, at.items, at.runs, at.bit_units, at.tile_kinds};
}

}  // namespace anymask
