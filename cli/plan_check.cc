#include "cli/plan_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace anymask::cli {

namespace {

// What one plane of the plan keeps, [rows, cols] of 0 and 1, or a complaint about its form.
std::string expand(const anymask_plan_view& plan, const anymask_plan_plane& plane, std::vector<uint8_t>& kept) {
  kept.assign(static_cast<size_t>(plane.rows * plane.cols), 0);
  const int64_t words = plan.tile_n / 64;
  int64_t full = 0, partial = 0, total = 0;
  for (int64_t m = 0; m < plane.m_blocks; ++m) {
    int32_t reached = 0;
    uint32_t last_kind = 3;
    for (int64_t r = plan.row_begin[plane.first_row + m]; r < plan.row_begin[plane.first_row + m + 1]; ++r) {
      const anymask_run& run = plan.runs[r];
      if (run.n_begin >= run.n_end || run.n_begin < reached || run.n_end > plane.n_blocks)
        return fmt::format("run {} is out of order or out of range", r);
      if (run.kind == 0 && last_kind == 0 && run.n_begin == reached)
        return fmt::format("run {} continues a FULL run: runs must be maximal", r);
      reached = run.n_end;
      last_kind = run.kind;
      for (int64_t n = run.n_begin; n < run.n_end; ++n) {
        (run.kind == 0 ? full : partial) += 1;
        const uint64_t* bits =
            run.kind == 0 ? nullptr
                          : plan.bit_tiles + (run.bits + (run.kind == 1 ? n - run.n_begin : 0)) * plan.tile_m * words;
        int64_t in_tile = 0, inside = 0;
        for (int64_t i = m * plan.tile_m; i < std::min<int64_t>((m + 1) * plan.tile_m, plane.rows); ++i) {
          for (int64_t j = n * plan.tile_n; j < std::min<int64_t>((n + 1) * plan.tile_n, plane.cols); ++j, ++inside) {
            const int64_t column = j - n * plan.tile_n;
            const bool keep = !bits || (bits[(i - m * plan.tile_m) * words + column / 64] >> (column % 64) & 1);
            kept[static_cast<size_t>(i * plane.cols + j)] = keep;
            in_tile += keep;
          }
        }
        total += in_tile;
        if (in_tile == 0) return fmt::format("tile ({}, {}) keeps nothing and is listed", m, n);
        if (bits && in_tile == inside) return fmt::format("tile ({}, {}) keeps everything and is PARTIAL", m, n);
      }
    }
  }
  if (full != plane.full_tiles || partial != plane.partial_tiles || total != plane.kept_pairs) {
    return fmt::format("counts say {} full, {} partial, {} pairs; the runs hold {}, {}, {}", plane.full_tiles,
                       plane.partial_tiles, plane.kept_pairs, full, partial, total);
  }
  return "";
}

}  // namespace

std::string plan_problem(const Call& call, Random& random) {
  const CallLengths lengths(call);
  anymask_plan_options options{};
  options.struct_size = sizeof(options);
  options.tile_m = static_cast<int32_t>(16 << random.below(3));
  options.tile_n = static_cast<int32_t>(64 << random.below(2));
  options.transposed = random.chance(0.5) ? 1 : 0;
  anymask_plan_t raw = nullptr;
  check(anymask_plan_create(call.mask.get(), &lengths.value, &options, &raw));
  const PlanHandle plan(raw);
  anymask_plan_view view{};
  view.struct_size = sizeof(view);
  check(anymask_plan_get(plan.get(), &view));
  const std::vector<Stretch> all = stretches(call);
  std::vector<uint8_t> kept;
  for (int64_t sequence = 0; sequence < view.num_sequences; ++sequence) {
    const Stretch& s = all[static_cast<size_t>(sequence)];
    if (s.s_q == 0 || s.s_kv == 0) continue;
    for (int64_t head = 0; head < view.heads; ++head) {
      const int32_t index = view.plane_of[sequence * view.heads + head];
      const anymask_plan_plane& plane = view.planes[index];
      const bool t = options.transposed != 0;
      const auto where = [&] {
        return fmt::format("plan {} x {}{} of sequence {}, head {}: ", options.tile_m, options.tile_n,
                           t ? " transposed" : "", sequence, head);
      };
      if (plane.rows != (t ? s.s_kv : s.s_q) || plane.cols != (t ? s.s_q : s.s_kv))
        return where() + "its plane has other lengths";
      const std::string complaint = expand(view, plane, kept);
      if (!complaint.empty()) return where() + complaint;
      Tensor dense = make_tensor("dense", ElementType::boolean, {s.s_q, s.s_kv});
      const DLTensor dense_view = dense.view();
      check(anymask_mask_dense(call.mask.get(), &lengths.value, sequence, head, 0, 0, &dense_view));
      for (int64_t q = 0; q < s.s_q; ++q) {
        for (int64_t kv = 0; kv < s.s_kv; ++kv) {
          const uint8_t planned = kept[static_cast<size_t>(t ? kv * s.s_q + q : q * s.s_kv + kv)];
          if (planned != dense.as<uint8_t>()[q * s.s_kv + kv])
            return where() + fmt::format("({}, {}) is {} and should not be", q, kv, planned ? "kept" : "dropped");
        }
      }
    }
  }
  return "";
}

}  // namespace anymask::cli
