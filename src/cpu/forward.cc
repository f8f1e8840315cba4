// The forward's vector code, compiled once per target: see forward.h for its parts.
#include "cpu/forward.h"

#include "cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "cpu/forward_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace {

TileElements ElementsOfTile(int64_t d_qk, int64_t d_v) {
  return {tile_keys * d_qk, tile_keys * ((d_v + kPanel - 1) / kPanel * kPanel)};
}

void PackOneTile(const AttentionProblem& problem, const Sequence& sequence, int64_t kv_head, int32_t n_block,
                 bool bf16_dot, void* k, void* v) {
#if HWY_TARGET == HWY_AVX3
  if (bf16_dot)
    return Bf16Products::PackTile(problem, sequence, kv_head, n_block, static_cast<uint16_t*>(k),
                                  static_cast<uint16_t*>(v));
#endif
  (void)bf16_dot;
  Fp32Products::PackTile(problem, sequence, kv_head, n_block, static_cast<float*>(k), static_cast<float*>(v));
}

void ComputeBlock(const BlockTask& task, ForwardScratch& scratch) {
  const AttentionProblem& problem = *task.problem;
  if (task.packed.k == nullptr && task.block.rows() <= kStreamRows && problem.d_qk % kLanes == 0 &&
      problem.d_v % kLanes == 0) {
    with_type(problem.dtype, [&](auto t) { Block<StreamProducts<decltype(t)>>(task, scratch).run(); });
    return;
  }
#if HWY_TARGET == HWY_AVX3
  if (task.bf16_dot) return Block<Bf16Products>(task, scratch).run();
#endif
  Block<Fp32Products>(task, scratch).run();
}

void MergePieces(const BlockTask& task, const PartialRows* pieces, int64_t num_pieces) {
  const AttentionProblem& problem = *task.problem;
  const float low = -std::numeric_limits<float>::infinity();
  const ScoreUnits units(problem);
  float o[256];
  for (int64_t i = 0; i < task.block.rows(); ++i) {
    float max = low, sum = 0;
    for (int64_t n = 0; n < num_pieces; ++n) max = pieces[n].max[i] > max ? pieces[n].max[i] : max;
    for (int64_t c = 0; c < problem.d_v; ++c) o[c] = 0;
    for (int64_t n = 0; n < num_pieces; ++n) {
      if (pieces[n].sum[i] == 0) continue;
      const float weight = units.exp(pieces[n].max[i] - (max == low ? 0.f : max));
      // A piece whose kept scores are all NaN has a maximum of -inf and a sum of NaN: it stays NaN.
      const float factor = pieces[n].sum[i] != pieces[n].sum[i] ? pieces[n].sum[i] : weight;
      sum += factor * pieces[n].sum[i];
      const float* from = pieces[n].o + i * problem.d_v;
      for (int64_t c = 0; c < problem.d_v; ++c) o[c] += factor * from[c];
    }
    FinishRow(problem, problem.sequences[static_cast<size_t>(task.block.sequence)],
              task.block.head + i / task.block.tokens, task.block.token + i % task.block.tokens, o, max, sum);
  }
}

}  // namespace

const ForwardKernels& Kernels() {
  static constexpr ForwardKernels kernels = {kRows, kPanel, ElementsOfTile, PackOneTile, ComputeBlock, MergePieces};
  return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anymask {
HWY_EXPORT(Kernels);
const ForwardKernels& forward_kernels() { return HWY_DYNAMIC_DISPATCH(Kernels)(); }
}  // namespace anymask
#endif
