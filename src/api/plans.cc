// The C functions that plan, and the plan cache.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "api/call.h"
#include "api/host_mask.h"
#include "api/lengths.h"
#include "api/status.h"
#include "api/view.h"
#include "core/error.h"
#include "cpu/thread_pool.h"
#include "mask/bound_mask.h"
#include "plan/builder.h"
#include "plan/tile_source.h"

struct anymask_plan_s {
  anymask::TilePlan plan;
};

namespace anymask {
namespace {

// The C structs are the plan's own, member by member, so that a view is pointers alone.
template <class C, class Own>
constexpr bool kSameLayout =
    sizeof(C) == sizeof(Own) &&
    alignof(C) == alignof(Own) && std::is_standard_layout_v<C>&& std::is_standard_layout_v<Own>;
static_assert(kSameLayout<anymask_run, Run> && offsetof(anymask_run, n_end) == offsetof(Run, n_end) &&
              offsetof(anymask_run, kind) == offsetof(Run, kind) && offsetof(anymask_run, bits) == offsetof(Run, bits));
static_assert(kSameLayout<anymask_plan_plane, PlanPlane> &&
              offsetof(anymask_plan_plane, m_blocks) == offsetof(PlanPlane, m_blocks) &&
              offsetof(anymask_plan_plane, first_row) == offsetof(PlanPlane, first_row) &&
              offsetof(anymask_plan_plane, kept_pairs) == offsetof(PlanPlane, kept_pairs) &&
              offsetof(anymask_plan_plane, partial_tiles) == offsetof(PlanPlane, partial_tiles));
static_assert(kSameLayout<anymask_work_item, WorkItem> &&
              offsetof(anymask_work_item, run_begin) == offsetof(WorkItem, run_begin) &&
              offsetof(anymask_work_item, n_begin) == offsetof(WorkItem, n_begin) &&
              offsetof(anymask_work_item, split) == offsetof(WorkItem, split) &&
              offsetof(anymask_work_item, cost) == offsetof(WorkItem, cost));

PlanRequest read_request(const char* operation, const anymask_plan_options* given) {
  constexpr int32_t kMaxTile = 1 << 15;
  PlanRequest request;
  if (given == nullptr) return request;
  const anymask_plan_options o = sized(operation, "options", *given);
  if (o.tile_m < 0 || o.tile_m > kMaxTile)
    fail_invalid(operation, ": tile_m is ", o.tile_m, "; expected 1 to ", kMaxTile, ", or 0 for the CPU kernel's own");
  if (o.tile_n < 0 || o.tile_n > kMaxTile || o.tile_n % 64 != 0)
    fail_invalid(operation, ": tile_n is ", o.tile_n, "; expected a multiple of 64 up to ", kMaxTile,
                 ", or 0 for the CPU kernel's own");
  if (!(o.split_cost >= 0) || std::isinf(o.split_cost))
    fail_invalid(operation, ": split_cost is ", o.split_cost,
                 "; expected a positive number of tiles, or 0 to split nothing");
  if (o.tile_m != 0) request.tile_m = o.tile_m;
  if (o.tile_n != 0) request.tile_n = o.tile_n;
  request.transposed = o.transposed != 0;
  request.split_cost = o.split_cost;
  return request;
}

}  // namespace
}  // namespace anymask

using namespace anymask;

anymask_status anymask_plan_create(anymask_mask_t mask, const anymask_lengths* lengths,
                                   const anymask_plan_options* options, anymask_plan_t* out) {
  return guarded([&] {
    constexpr const char* kOperation = "plan";
    anymask_plan_t& result = required(kOperation, "out", out);
    const Mask m = on_host(required(kOperation, "mask", mask).mask);
    const PlanRequest request = read_request(kOperation, options);
    const Lengths l = read_lengths(kOperation, lengths);
    const Workers workers = pool_workers(0);
    result =
        new anymask_plan_s{build_plan(anymask::bind(m, l.sequences, l.h_q, l.h_kv, {}, workers), request, workers)};
  });
}

anymask_status anymask_plan_get(anymask_plan_t plan, anymask_plan_view* out) {
  return guarded([&] {
    constexpr const char* kOperation = "plan view";
    const TilePlan& p = required(kOperation, "plan", plan).plan;
    anymask_plan_view& result = required(kOperation, "out", out);
    if (result.struct_size < sizeof(anymask_plan_view))
      fail_invalid(kOperation, ": out.struct_size is ", result.struct_size, "; expected ", sizeof(anymask_plan_view),
                   ": set struct_size = sizeof(it)");
    anymask_plan_view v = {};
    v.struct_size = result.struct_size;
    v.tile_m = p.tile_m, v.tile_n = p.tile_n, v.transposed = p.transposed ? 1 : 0;
    v.num_planes = static_cast<int64_t>(p.planes.size());
    v.heads = p.heads;
    v.num_sequences = p.heads == 0 ? 0 : static_cast<int64_t>(p.plane_of.size()) / p.heads;
    v.num_rows = static_cast<int64_t>(p.row_begin.size()) - 1;
    v.num_runs = static_cast<int64_t>(p.runs.size());
    v.num_bit_tiles = p.words_per_tile() == 0 ? 0 : static_cast<int64_t>(p.bit_tiles.size() / p.words_per_tile());
    v.num_work = static_cast<int64_t>(p.work.size());
    v.planes = reinterpret_cast<const anymask_plan_plane*>(p.planes.data());
    v.plane_of = p.plane_of.data();
    v.row_begin = p.row_begin.data();
    v.runs = reinterpret_cast<const anymask_run*>(p.runs.data());
    v.bit_tiles = p.bit_tiles.data();
    v.work = reinterpret_cast<const anymask_work_item*>(p.work.data());
    v.kept_pairs = p.stats.kept_pairs, v.pairs = p.stats.pairs;
    v.full_tiles = p.stats.full_tiles, v.partial_tiles = p.stats.partial_tiles, v.empty_tiles = p.stats.empty_tiles;
    v.bytes = p.stats.bytes;
    result = v;
  });
}

void anymask_plan_free(anymask_plan_t plan) { delete plan; }

anymask_cache_stats anymask_plan_cache_stats(void) {
  anymask_cache_stats stats = {};
  guarded([&] {
    const PlanCacheStats s = plan_cache_stats();
    stats = {s.entries, s.bytes, s.hits, s.misses, s.limit_bytes};
  });
  return stats;
}

void anymask_plan_cache_limit(int64_t bytes) {
  guarded([&] { set_plan_cache_limit(std::max<int64_t>(bytes, 0)); });
}
