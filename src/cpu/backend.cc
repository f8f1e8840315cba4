// The CPU as a backend: what it supports, what it would do, and its two directions.
#include "backend/backend.h"

#include "core/error.h"
#include "cpu/backward.h"
#include "cpu/forward.h"
#include "cpu/forward_schedule.h"
#include "cpu/targets.h"
#include "cpu/thread_pool.h"
#include "plan/tile_source.h"

namespace anymask {
namespace {

bool computes(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }
  Device device() const override { return {DeviceKind::cpu, 0}; }
  std::vector<Fact> machine() const override { return {{"target", cpu_target()}}; }

  Support supports(const AttentionProblem& problem, Direction) const override {
    const auto refuse = [](const char* what, DType type) {
      return Support{false, cat(what, " of type ", name_of(type),
                                "; the CPU backend computes float32, bfloat16 and float16: convert it, or name the "
                                "backend \"reference\"")};
    };
    if (!computes(problem.dtype)) return refuse("tensors", problem.dtype);
    if (problem.bias.defined() && !computes(problem.bias.dtype)) return refuse("a bias", problem.bias.dtype);
    if (problem.alibi.defined() && !computes(problem.alibi.dtype)) return refuse("ALiBi slopes", problem.alibi.dtype);
    if (problem.sinks.defined() && !computes(problem.sinks.dtype)) return refuse("sinks", problem.sinks.dtype);
    if (problem.out.defined() && problem.out.dtype != problem.dtype) return refuse("an out", problem.out.dtype);
    if (problem.lse.defined() && problem.lse.dtype != DType::f32) return refuse("an lse", problem.lse.dtype);
    for (const int64_t d : {problem.d_qk, problem.d_v}) {
      if (d % 8 != 0 || d > 256) {
        return {false, cat("head dimension ", d,
                           "; the CPU backend computes multiples of 8 up to 256: pad with zeros (and keep "
                           "softmax_scale), or name the backend \"reference\"")};
      }
    }
    return {};
  }

  size_t workspace_bytes(const AttentionProblem&, const Mask&, Direction) const override { return 0; }
  void forward(const AttentionProblem& problem, const Mask& mask, const Launch&) const override {
    cpu_forward(problem, mask);
  }
  void backward(const AttentionProblem& problem, const Mask& mask, const Launch&) const override {
    cpu_backward(problem, mask);
  }

  std::vector<Fact> explain(const AttentionProblem& problem, const Mask& mask, Direction direction) const override {
    if (direction == Direction::backward) return backward_facts(problem, mask);
    ForwardConfig config = choose_forward(problem);
    const TileSource source = TileSource::make(mask, problem.sequences, problem.h_q, problem.h_kv, config.request(),
                                               pool_workers(problem.num_threads));
    ForwardSchedule schedule;
    schedule.build(problem, source, config);
    std::vector<Fact> facts = {{"target", cpu_target()},
                               {"register tile", cat(forward_kernels().rows, " x ", forward_kernels().columns)},
                               {"tiles from", source.planned() ? "a plan" : "two integers a row (no plan)"},
                               {"plan bytes", cat(source.planned() ? source.plan()->stats.bytes : 0)},
                               {"tasks", cat(schedule.num_tasks())},
                               {"threads", cat(resolve_threads(problem.num_threads))}};
    for (Fact& fact : config.facts()) facts.push_back(std::move(fact));
    return facts;
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace anymask
