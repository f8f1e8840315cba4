// How many blocks gather and scatter.
#include "cuda/launch/gather_keys.h"

#include <algorithm>

#include "cuda/kernels/gather_columns.cuh"
#include "cuda/kernels/gather_keys.cuh"
#include "cuda/launch/device.h"

namespace anymask {
namespace {

// Heads and sequences are at most 65,535 (gathers()); planes may be more, and are strided over.
dim3 grid(int64_t x, int64_t y, int64_t z = 1) {
  return dim3(static_cast<unsigned>(std::max<int64_t>(x, 1)), static_cast<unsigned>(std::clamp<int64_t>(y, 1, 65535)),
              static_cast<unsigned>(std::max<int64_t>(z, 1)));
}
int64_t blocks(int64_t n, int64_t of) { return (n + of - 1) / of; }

}  // namespace

int32_t gather_stretch(int64_t keys) {
  return static_cast<int32_t>(std::max<int64_t>(blocks(keys, int64_t{32} * gather::list_keys), 1) * gather::list_keys);
}

void launch_chosen(const GatherParams& p, cudaStream_t stream) {
  using namespace gather;
  gather_chosen<<<grid(blocks(p.num_planes, threads), 1), threads, 0, stream>>>(p);
  check_cuda(cudaGetLastError(), "gathering keys");
}

void launch_gather(const GatherParams& p, const GatherExtents& extents, cudaStream_t stream) {
  using namespace gather;
  gather_list<<<grid(blocks(extents.keys, p.stretch), p.num_planes), list_threads, 0, stream>>>(p);
  gather_rows<<<grid(blocks(p.width, warps * row_places), p.heads, p.num_sequences), threads, 0, stream>>>(p);
  if (p.bias.data != nullptr)
    gather_bias<<<grid(blocks(p.width, threads), p.bias_heads, p.num_sequences), threads, 0, stream>>>(p);
  gather_ends<<<grid(blocks(extents.lines, threads), p.num_planes), threads, 0, stream>>>(p);
  check_cuda(cudaGetLastError(), "gathering keys");
}

void launch_columns(const GatherParams& p, const CudaDevice& device, cudaStream_t stream) {
  using namespace gather;
  allow_shared_memory<gather_columns>(sizeof(Columns), device);
  gather_columns<<<grid(p.num_planes, 1), column_threads, sizeof(Columns), stream>>>(p);
  check_cuda(cudaGetLastError(), "gathering keys");
}

void launch_scatter(const GatherParams& p, const GatherExtents& extents, cudaStream_t stream) {
  using namespace gather;
  scatter_rows<<<grid(blocks(extents.keys, warps), p.h_kv, p.num_sources), threads, 0, stream>>>(p);
  if (p.dbias.data != nullptr)
    scatter_bias<<<grid(blocks(p.dbias_shape[3], threads), p.dbias_shape[1], p.dbias_shape[0]), threads, 0, stream>>>(
        p);
  if (p.call_dsinks != nullptr) scatter_sinks<<<grid(blocks(p.h_q, threads), 1), threads, 0, stream>>>(p);
  check_cuda(cudaGetLastError(), "scattering gradients");
}

}  // namespace anymask
