// The kernels of a portable backward in their order: facts of the rows, the passes, what sums become.
#include "cuda/launch/sm80_attention_bwd.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "core/error.h"
#include "cuda/kernels/backward_convert.cuh"
#include "cuda/kernels/backward_dbias.cuh"
#include "cuda/kernels/backward_delta.cuh"
#include "cuda/launch/carve.h"
#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/sm80_attention_bwd_pass.h"

namespace anymask {
namespace {

using Dbias = Sm80AttentionBwdConfig::Dbias;

// The scratch of a call, by its shapes alone.
struct Shapes {
  int64_t h_q, rows, keys, sequences;
  bool dsinks;
};
struct Places {
  BackwardScratch scratch{};
  float *row_lse, *delta;
  size_t bytes;
};
Places places(const Shapes& shapes, const Sm80AttentionBwdConfig& config, void* memory) {
  Carve carve(memory);
  Places at;
  BackwardScratch& w = at.scratch;
  const auto heads = static_cast<size_t>(shapes.h_q);
  w.aligned = config.aligned ? 1 : 0;
  w.natural = config.natural ? 1 : 0;
  w.rows = shapes.rows;
  w.counters = carve.take<int32_t>(2);
  at.row_lse = carve.take<float>(heads * static_cast<size_t>(shapes.rows));
  at.delta = carve.take<float>(heads * static_cast<size_t>(shapes.rows));
  if (!config.two_passes) {
    // Blocks of 16 rows; each sequence begins one of its own.
    w.dq_stride = (shapes.rows / 16 + shapes.sequences + 1) * 16 * config.head_dim;
    w.dq_sum = carve.take<float>(heads * static_cast<size_t>(w.dq_stride));
  }
  if (!config.per_kv_head) {
    w.kv_stride = shapes.keys * config.head_dim;
    w.dk_sum = carve.take<float>(heads * static_cast<size_t>(w.kv_stride));
    w.dv_sum = carve.take<float>(heads * static_cast<size_t>(w.kv_stride));
  }
  if (shapes.dsinks) {
    w.dsinks_blocks = static_cast<int32_t>((shapes.rows + delta_rows - 1) / delta_rows);
    w.dsinks_sum = carve.take<float>(heads * static_cast<size_t>(std::max(w.dsinks_blocks, 1)));
  }
  std::copy(std::begin(config.dbias_shape), std::end(config.dbias_shape), std::begin(w.dbias_shape));
  if (config.dbias == Dbias::summed) {
    size_t elements = 1;
    for (const int64_t size : config.dbias_shape) elements *= static_cast<size_t>(size);
    w.dbias_sum = carve.take<unsigned long long>(elements);
    w.dbias_bounds = carve.take<uint32_t>(3);
    w.dbias_exponent = carve.take<int32_t>(1);
  }
  at.bytes = carve.bytes();
  return at;
}

template <auto kernel, class... Arguments>
void launch(dim3 blocks, int32_t threads, size_t shared_bytes, const CudaDevice& device, cudaStream_t stream,
            const Arguments&... arguments) {
  check_cuda(launch_after<kernel>(blocks, threads, shared_bytes, device, stream, arguments...),
             "launching what surrounds sm80_attention_bwd");
}

template <class T>
void launch_pass(const Sm80BwdPass& pass, int32_t head_dim, bool dq) {
  const auto launch = [&](auto size) {
    constexpr int d = decltype(size)::value;
    return dq ? launch_sm80_bwd_dq<T, d>(pass) : launch_sm80_bwd_dkdv<T, d>(pass);
  };
  switch (head_dim) {
    case 32:
      return launch(std::integral_constant<int, 32>());
    case 64:
      return launch(std::integral_constant<int, 64>());
    case 96:
      return launch(std::integral_constant<int, 96>());
    case 128:
      return launch(std::integral_constant<int, 128>());
    case 192:
      return launch(std::integral_constant<int, 192>());
    default:
      return launch(std::integral_constant<int, 256>());
  }
}

template <class T>
void launch_small(const Sm80BwdSmall& call) {
  switch (call.config.small_head_dim) {
    case 16:
      return launch_sm80_bwd_small<T, 16>(call);
    case 32:
      return launch_sm80_bwd_small<T, 32>(call);
    case 64:
      return launch_sm80_bwd_small<T, 64>(call);
    default:
      return launch_sm80_bwd_small<T, 128>(call);
  }
}

unsigned blocks(int64_t n, int64_t of) { return static_cast<unsigned>((n + of - 1) / of); }

template <class T>
void launch_all(const Sm80BwdCall& call, const AttentionParams& dkdv, const AttentionParams& dq,
                const BackwardScratch& w, const Sm80AttentionBwdConfig& config, const CudaDevice& device,
                cudaStream_t stream) {
  const auto h_q = static_cast<unsigned>(dkdv.h_q), h_kv = static_cast<unsigned>(dkdv.h_kv);
  const dim3 many(static_cast<unsigned>(device.num_sms * 8));
  launch<backward_delta<T>>(dim3(std::max(1u, blocks(w.rows, delta_rows)), h_q), 256, 0, device, stream, dkdv, w);
  if (w.dsinks_sum != nullptr) launch<backward_dsinks>(dim3(h_q), 256, 0, device, stream, dkdv, w);
  if (config.dbias != Dbias::none) launch<backward_zero_dbias>(many, 256, 0, device, stream, dq, w);
  if (w.dbias_sum != nullptr) {
    check_cuda(cudaMemsetAsync(w.dbias_bounds, 0, 3 * sizeof(uint32_t), stream), "clearing the bounds of dbias");
    launch<backward_dbias_bounds<T>>(many, 256, 0, device, stream, dq, w);
    launch<backward_dbias_unit>(dim3(1), 1, 0, device, stream, dq, w);
  }

  launch_pass<T>({dkdv, w, device, stream, config.small_tiles, call.dkdv_items}, config.head_dim, false);
  if (config.two_passes)
    launch_pass<T>({dq, w, device, stream, config.small_tiles, call.dq_items}, config.head_dim, true);

  if (w.dq_sum != nullptr && dkdv.num_sequences > 0)
    launch<backward_convert_dq<T>>(dim3(blocks(w.dq_stride / (16 * config.head_dim), 4), h_q), 256, 0, device, stream,
                                   dkdv, w, config.head_dim);
  if (w.dk_sum != nullptr && w.kv_stride > 0)
    launch<backward_sum_heads<T>>(dim3(blocks(w.kv_stride, 512), h_kv, 2), 256, 0, device, stream, dkdv, w,
                                  config.head_dim);
  if (w.dbias_sum != nullptr) launch<backward_finish_dbias>(many, 256, 0, device, stream, dq, w);
}

}  // namespace

size_t sm80_attention_bwd_scratch_bytes(const AttentionProblem& problem, const Sm80AttentionBwdConfig& config) {
  int64_t rows = 0, keys = 0;
  for (const Sequence& s : problem.sequences) rows += s.s_q, keys += s.s_kv;
  return places({problem.h_q, rows, keys, static_cast<int64_t>(problem.sequences.size()), problem.dsinks.defined()},
                config, nullptr)
      .bytes;
}

void launch_sm80_attention_bwd(const Sm80BwdCall& call, void* scratch, const Sm80AttentionBwdConfig& config,
                               const CudaDevice& device, cudaStream_t stream) {
  const AttentionParams& transposed = call.dkdv;
  const int64_t batches = transposed.packed != 0 ? 1 : transposed.num_sequences;
  const Places at = places({transposed.h_q, batches * transposed.tokens_q, batches * transposed.tokens_kv,
                            transposed.num_sequences, transposed.dsinks.data != nullptr},
                           config, scratch);
  const auto with_places = [&](const AttentionParams& params, int pass) {
    AttentionParams p = params;
    p.row_lse = at.row_lse;
    p.delta = at.delta;
    p.stat_stride = at.scratch.rows;
    p.work_counter = at.scratch.counters + pass;
    return p;
  };
  const AttentionParams dkdv = with_places(transposed, 0),
                        dq = with_places(config.two_passes ? call.dq : transposed, 1);
  if (config.dtype == DType::f16) {
    launch_all<__half>(call, dkdv, dq, at.scratch, config, device, stream);
  } else {
    launch_all<__nv_bfloat16>(call, dkdv, dq, at.scratch, config, device, stream);
  }
}

void launch_sm80_attention_bwd_small(const AttentionParams& params, const Sm80AttentionBwdConfig& config,
                                     const CudaDevice& device, cudaStream_t stream) {
  if (params.num_sequences == 0 || config.small_key_blocks + config.small_query_blocks == 0) return;
  const Sm80BwdSmall call{params, config, device, stream};
  config.dtype == DType::f16 ? launch_small<__half>(call) : launch_small<__nv_bfloat16>(call);
}

}  // namespace anymask
