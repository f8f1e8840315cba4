#include "cuda/launch/plan.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "cuda/config/topk_select.h"
#include "cuda/launch/carve.h"
#include "cuda/launch/plan_build.h"
#include "cuda/plan/capacity.h"
#include "cuda/plan/split.h"
#include "cuda/plan/upload.h"

namespace anymask {
namespace {

constexpr int64_t most = std::numeric_limits<int32_t>::max();

}  // namespace

struct CudaPlanSource::Parts {
  Parts(const BoundMask& bound, const AttentionProblem& problem, const PlanShape& asked, const CudaDevice& where)
      : shape(asked), device(where), upload(bound, problem, asked), header(upload.header) {
    int64_t bit_tiles = 0, runs = 0;
    for (size_t p = 0; p < upload.planes.size(); ++p) {
      const BuildPlane& plane = upload.planes[p];
      const PlanCapacity capacity = plan_capacity(bound.planes[p], upload.tile_rows(), shape.transposed);
      bit_tiles += capacity.bit_tiles;
      runs += capacity.runs;
      launch.max_m_blocks = std::max(launch.max_m_blocks, plane.m_blocks);
      launch.max_n_blocks = std::max(launch.max_n_blocks, plane.n_blocks);
    }
    if (shape.tile_m > 256 || shape.tile_m % 64 != 0)
      fail_unsupported("attention: a plan for tiles of ", shape.tile_m, " rows; expected 64, 128, 192 or 256");
    // Rows that are cut have two slots or more, so there are at most twice as many slots as pieces are added.
    int64_t extra = 0, slots = 0;
    std::vector<PlaneUse> uses;
    for (const BuildPlane& plane : upload.planes) uses.push_back({plane.uses, plane.n_blocks});
    if (!never_split(bound, uses, upload.max_items, shape)) {
      int64_t most_pieces = 0;  // of four tiles or more
      for (const BuildPlane& plane : upload.planes)
        most_pieces += int64_t{plane.uses} * plane.m_blocks * (plane.n_blocks / static_cast<int32_t>(shortest_piece));
      extra = std::min(int64_t{most_cuts} * shape.parallelism, most_pieces);
      slots = std::min(extra + std::min(extra, upload.max_items), most_pieces);
    }
    const int64_t items = upload.max_items + extra, pieces = upload.header.num_rows + extra;
    if (items > most / 2 || bit_tiles > most || runs > most)
      fail_unsupported("attention: the mask's plan may have ", items, " items, ", runs, " runs and ", bit_tiles,
                       " cut tiles; the CUDA backend counts up to 2^30: split "
                       "the batch or the sequence");
    header.max_items = static_cast<int32_t>(items);
    header.max_pieces = static_cast<int32_t>(pieces);
    header.max_slots = static_cast<int32_t>(slots);
    header.whole_items = static_cast<int32_t>(upload.max_items);
    header.max_bit_tiles = static_cast<int32_t>(bit_tiles);
    header.max_runs = static_cast<int32_t>(runs);
    launch.num_rows = header.num_rows;
    launch.num_planes = header.num_planes;
    launch.pairs = header.pairs;
    launch.tile_m = header.tile_m;
    launch.fold = header.fold;
    launch.max_bit_tiles = bit_tiles;
    launch.num_made = upload.num_made;
    launch.made_units = upload.made_units;
    launch.made_heaps = upload.made_heaps;
    launch.selections = upload.selections;
    launch.emits_tiles = upload.emits_tiles;
  }

  // The arrays' places in device memory, from `memory` (null: only their size
  // counts).
  PlanBuild places(void* memory, size_t* bytes) const {
    Carve carve(memory);
    void* const to = carve.take<std::byte>(upload.size());
    PlanBuild build = upload.parts(to);
    build.num_items = carve.take<int32_t>(1);
    build.drafts = carve.take<BuildDraft>(static_cast<size_t>(header.num_rows));
    build.rows = carve.take<BuildRow>(static_cast<size_t>(header.num_rows));
    build.plane_pieces = carve.take<BuildPieces>(static_cast<size_t>(header.num_planes));
    build.pieces = carve.take<BuildPiece>(static_cast<size_t>(header.max_pieces));
    build.items = carve.take<CudaItem>(static_cast<size_t>(header.max_items));
    build.runs = carve.take<Run>(static_cast<size_t>(header.max_runs));
    build.draft_runs = carve.take<Run>(static_cast<size_t>(header.max_runs));
    const auto tiles = static_cast<size_t>(header.max_bit_tiles);
    build.mixed = carve.take<MixedTile>(tiles);
    build.bit_units = carve.take<uint32_t>(tiles * static_cast<size_t>(header.tile_m) * 4);
    build.tile_kinds = carve.take<uint32_t>(tiles);
    if (bytes != nullptr) *bytes = carve.bytes();
    return build;
  }

  PlanShape shape;
  const CudaDevice& device;
  PlanUpload upload;
  BuildHeader header;
  PlanBuildShape launch{};
};

CudaPlanSource::CudaPlanSource(const BoundMask& mask, const AttentionProblem& problem, const PlanShape& shape,
                               const CudaDevice& device)
    : parts_(std::make_unique<Parts>(mask, problem, shape, device)) {}
CudaPlanSource::~CudaPlanSource() = default;

size_t CudaPlanSource::bytes() const {
  size_t bytes = 0;
  static_cast<void>(parts_->places(nullptr, &bytes));
  return bytes;
}
int32_t CudaPlanSource::partial_slots() const { return parts_->header.max_slots; }
int64_t CudaPlanSource::max_items() const { return parts_->header.max_items; }

std::vector<Fact> CudaPlanSource::facts() const {
  std::vector<Fact> facts;
  for (const PlanUpload::Selection& selection : parts_->upload.selections) {
    for (Fact& fact : choose_topk_select(selection.dtype, selection.rows, selection.keys, parts_->device).facts())
      facts.push_back(std::move(fact));
  }
  if (!facts.empty())
    facts.push_back(
        {"bits of the plan", parts_->upload.emits_tiles ? "written by the selection" : "from each row's two integers"});
  return facts;
}

CudaPlan CudaPlanSource::enqueue(void* memory, cudaStream_t stream) const {
  const PlanBuild build = parts_->places(memory, nullptr);
  upload_plan(parts_->upload.bytes(parts_->header, build.header), build.header, stream);
  launch_plan_build(build, parts_->launch, parts_->device, stream);
  return {parts_->header.tile_m, parts_->header.fold, build.num_items, build.items, build.runs,
          build.bit_units,       build.tile_kinds};
}

}  // namespace anymask
