// See plan_build.h; the kernels are in kernels/plan_build.cuh.
#include "cuda/launch/plan_build.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cuda/kernels/plan_build.cuh"
#include "cuda/kernels/plan_prepare.cuh"
#include "cuda/kernels/topk_candidates.cuh"
#include "cuda/launch/device.h"
#include "cuda/launch/launch_after.cuh"
#include "cuda/launch/topk_select.h"

namespace anymask {
namespace {

using namespace plan_build;

constexpr size_t piece_bytes = sizeof(UploadPiece);
constexpr size_t max_pieces = 4;  // beyond, one copy costs less than so many launches

// While a graph is captured the copy's source must live as long as the graph: the graph owns it. Says whether it does.
bool give_to_graph(std::vector<std::byte>& bytes, cudaStream_t stream, const void*& source) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
#if CUDART_VERSION >= 13000
  check_cuda(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr),
             "asking whether a graph is captured");
#else
  check_cuda(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph), "asking whether a graph is captured");
#endif
  if (status != cudaStreamCaptureStatusActive) return false;
  auto owned = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  source = owned->data();
  cudaUserObject_t object = nullptr;
  check_cuda(cudaUserObjectCreate(
                 &object, owned.get(), [](void* data) { delete static_cast<std::vector<std::byte>*>(data); }, 1,
                 cudaUserObjectNoDestructorSync),
             "giving a plan's upload to the graph");
  static_cast<void>(owned.release());
  check_cuda(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove),
             "giving a plan's upload to the graph");
  return true;
}

template <auto kernel, class... Arguments>
void launch(dim3 blocks, int32_t threads, size_t shared_bytes, const CudaDevice& device, cudaStream_t stream,
            const Arguments&... arguments) {
  check_cuda(launch_after<kernel>(blocks, threads, shared_bytes, device, stream, arguments...), "building a plan");
}

}  // namespace

void upload_plan(std::vector<std::byte> bytes, void* to, cudaStream_t stream) {
  if (bytes.size() > max_pieces * piece_bytes) {
    const size_t size = bytes.size();
    const void* source = bytes.data();
    give_to_graph(bytes, stream, source);
    check_cuda(cudaMemcpyAsync(to, source, size, cudaMemcpyHostToDevice, stream), "uploading a mask");
    return;
  }
  for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
    const size_t size = std::min(piece_bytes, bytes.size() - at);
    UploadPiece piece;
    std::memcpy(&piece, bytes.data() + at, size);
    plan_upload<<<1, UploadPiece::words, 0, stream>>>(piece, reinterpret_cast<uint4*>(static_cast<std::byte*>(to) + at),
                                                      static_cast<int32_t>(size / sizeof(uint4)));
    check_cuda(cudaGetLastError(), "uploading a mask");
  }
}

static void launch_candidates(const PlanBuild& build, const PlanUpload::Selection& selection, const CudaDevice& device,
                              cudaStream_t stream) {
  if (selection.candidates == 0) return;
  const int64_t blocks = (selection.candidate_threads - 1) / candidate_threads + 1;
  const dim3 grid(static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, 4 * int64_t{device.num_sms})),
                  static_cast<unsigned>(selection.candidates));
  launch<topk_candidates>(grid, candidate_threads, 0, device, stream, build,
                          build.candidates + selection.first_candidates);
}

// The candidates of rows, then the largest of them; their bits too where `tiles` says where.
static void launch_selection(const PlanBuild& build, const PlanUpload::Selection& selection, const TopkTiles& tiles,
                             const CudaDevice& device, cudaStream_t stream) {
  launch_candidates(build, selection, device, stream);
  TopkParams params{};
  params.planes = build.selections + selection.first;
  params.num_planes = selection.planes;
  params.num_rows = selection.rows;
  params.tiles = tiles;
  launch_topk_select(params, choose_topk_select(selection.dtype, selection.rows, selection.keys, device), device,
                     stream);
}

// Leaves of arrays that lie on the device.
static void launch_made(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                        cudaStream_t stream) {
  if (shape.num_made > 0) {
    const int64_t units = std::min<int64_t>((shape.made_units - 1) / (prepare_threads / 32) + 1, device.num_sms);
    const dim3 blocks(static_cast<unsigned>(shape.num_made), static_cast<unsigned>(units));
    launch<plan_prepare>(blocks, prepare_threads, 0, device, stream, build);
    if (shape.made_heaps) launch<plan_heaps>(shape.num_made, prepare_threads, 0, device, stream, build);
  }
}

void launch_candidates(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                       cudaStream_t stream) {
  launch_made(build, shape, device, stream);
  for (const PlanUpload::Selection& selection : shape.selections) launch_candidates(build, selection, device, stream);
}

void launch_selections(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                       cudaStream_t stream) {
  launch_made(build, shape, device, stream);
  for (const PlanUpload::Selection& selection : shape.selections)
    launch_selection(build, selection, {}, device, stream);
}

void launch_plan_build(const PlanBuild& build, const PlanBuildShape& shape, const CudaDevice& device,
                       cudaStream_t stream) {
  launch_made(build, shape, device, stream);
  const size_t first_selections = shape.selections.size() - (shape.emits_tiles ? 1 : 0);
  for (const PlanUpload::Selection& selection : shape.selections.first(first_selections))
    launch_selection(build, selection, {}, device, stream);
  if (shape.num_rows > 0) {
    const size_t bytes = 16 * ((static_cast<size_t>(shape.max_n_blocks) + 31) / 32);
    if (bytes > 40 * 1024) {
      constexpr size_t most = 16 * size_t{max_row_tiles / 32};
      allow_shared_memory<plan_classify>(most, device);
      allow_shared_memory<plan_runs>(most, device);
    }
    launch<plan_classify>(shape.num_rows, row_threads, bytes, device, stream, build);
    const int64_t warps = shape.max_bit_tiles * (shape.tile_m / 64), blocks = (warps * 32 - 1) / evaluate_threads + 1;
    if (shape.emits_tiles) {
      const TopkTiles tiles{build.drafts,     build.draft_runs, build.bit_units,
                            build.tile_kinds, shape.tile_m,     shape.fold};
      launch_selection(build, shape.selections.back(), tiles, device, stream);
    } else if (warps > 0) {
      launch<plan_evaluate>(static_cast<int32_t>(std::min<int64_t>(blocks, 4 * int64_t{device.num_sms})),
                            evaluate_threads, 0, device, stream, build);
    }
    launch<plan_runs>(shape.num_rows, row_threads, bytes, device, stream, build);
  }
  if (shape.num_planes > 0) launch<plan_pieces>(shape.num_planes, piece_threads, 0, device, stream, build);
  // Blocks enough for every SM; a block of few pairs meets few sections.
  const int32_t pairs_per_block =
      std::clamp(std::min(512 / std::max(shape.max_m_blocks, 1), (shape.pairs - 1) / device.num_sms + 1), 1, 64);
  const int32_t blocks = std::max(1, (shape.pairs - 1) / pairs_per_block + 1);
  launch<plan_items>(blocks, item_threads, 0, device, stream, build, pairs_per_block);
}

}  // namespace anymask
