#include "cuda/launch/params.h"

#include <atomic>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "cuda/launch/plan_build.h"

namespace anymask {
namespace {

CudaTensor tensor(const Tensor4& t) { return {t.data, t.stride_b, t.stride_s, t.stride_h}; }
CudaRowStat row_stat(const RowStat& r) {
  if (!r.defined()) return {};
  return {static_cast<float*>(r.data), r.stride_b, r.stride_h, r.stride_q};
}
CudaBias bias_of(const Bias& b) {
  if (!b.defined()) return {};
  return {b.data, b.stride_b, b.stride_h, b.stride_q, b.stride_kv, static_cast<int32_t>(b.group), b.dtype};
}
CudaPerHead per_head(const PerHead& p) {
  if (!p.defined()) return {};
  return {p.data, p.stride_b, p.stride_h, p.dtype};
}

// Splitmix64 over a count that begins at random: memory holds such a number by chance once in 2^64.
uint64_t next_launch() {
  static std::atomic<uint64_t> count{uint64_t{std::random_device()()} << 32 | std::random_device()()};
  for (;;) {
    uint64_t x = count.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    x ^= x >> 31;
    if (x != 0) return x;
  }
}

}  // namespace

AttentionParams make_params(const AttentionProblem& problem) {
  AttentionParams params{};
  params.launch = next_launch();
  params.h_q = static_cast<int32_t>(problem.h_q);
  params.h_kv = static_cast<int32_t>(problem.h_kv);
  params.group = static_cast<int32_t>(problem.group());
  params.d_qk = static_cast<int32_t>(problem.d_qk);
  params.d_v = static_cast<int32_t>(problem.d_v);
  params.num_sequences = static_cast<int32_t>(problem.sequences.size());
  params.packed = problem.packed ? 1 : 0;
  if (problem.packed) {
    for (const Sequence& s : problem.sequences) {
      params.tokens_q += s.s_q;
      params.tokens_kv += s.s_kv;
    }
  } else {
    params.tokens_q = problem.max_s_q;
    params.tokens_kv = problem.max_s_kv;
  }
  params.softmax_scale = static_cast<float>(problem.softmax_scale);
  params.softcap = static_cast<float>(problem.softcap);
  params.q = tensor(problem.q);
  params.k = tensor(problem.k);
  params.v = tensor(problem.v);
  params.out = tensor(problem.out);
  params.lse = row_stat(problem.lse);
  params.bias = bias_of(problem.bias);
  params.alibi = per_head(problem.alibi);
  params.sinks = per_head(problem.sinks);
  params.dout = tensor(problem.dout);
  params.dq = tensor(problem.dq);
  params.dk = tensor(problem.dk);
  params.dv = tensor(problem.dv);
  params.dlse = row_stat(problem.dlse);
  params.dbias = bias_of(problem.dbias);
  params.dsinks = per_head(problem.dsinks);
  return params;
}

bool uniform_sequences(const AttentionProblem& problem) {
  if (problem.packed) return false;
  for (size_t i = 0; i < problem.sequences.size(); ++i) {
    const Sequence& s = problem.sequences[i];
    if (s.batch != static_cast<int64_t>(i) || s.q_begin != 0 || s.kv_begin != 0 || s.s_q != problem.max_s_q ||
        s.s_kv != problem.max_s_kv)
      return false;
  }
  return true;
}

std::vector<CudaSequence> cuda_sequences(const AttentionProblem& problem) {
  std::vector<CudaSequence> all;
  for (const Sequence& s : problem.sequences)
    all.push_back({s.batch, s.q_begin, s.kv_begin, static_cast<int32_t>(s.s_q), static_cast<int32_t>(s.s_kv)});
  return all;
}

size_t sequence_count(const AttentionProblem& problem) {
  return uniform_sequences(problem) ? 0 : problem.sequences.size();
}

const CudaSequence* enqueue_sequences(const AttentionProblem& problem, CudaSequence* to, cudaStream_t stream) {
  if (uniform_sequences(problem)) return nullptr;
  const std::vector<CudaSequence> all = cuda_sequences(problem);
  std::vector<std::byte> bytes(all.size() * sizeof(CudaSequence));
  if (!all.empty()) std::memcpy(bytes.data(), all.data(), bytes.size());
  static_assert(sizeof(CudaSequence) % 16 == 0);
  upload_plan(std::move(bytes), to, stream);
  return to;
}

}  // namespace anymask
