#include "cuda/plan/upload.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "cuda/plan/upload_steps.h"

namespace anymask {
namespace {

constexpr size_t alignment = 16;

int32_t blocks(int64_t length, int64_t tile) {
  const int64_t count = (length + tile - 1) / tile;
  if (count > std::numeric_limits<int32_t>::max())
    fail_unsupported("attention: ", length, " tokens make more than 2^31 tiles of ", tile,
                     ": call it for pieces of the sequence");
  return static_cast<int32_t>(count);
}

template <class T>
T* at_offset(void* base, size_t offset) {
  return base == nullptr || offset == 0 ? nullptr : reinterpret_cast<T*>(static_cast<std::byte*>(base) + offset);
}

// What a warp makes of a leaf's arrays at once: a word of a map, 32 lines of intervals. Everything else is one block's.
int64_t units_of(const LeafArgs& args) {
  switch (args.op) {
    case Op::blocks:
      return (args.s_q + args.ints[0] - 1) / args.ints[0] * args.ints[2];
    case Op::row_intervals:
    case Op::col_intervals:
      return args.ints[1] / 32 + 1;
    default:
      return 1;
  }
}

}  // namespace

PlanUpload::PlanUpload(const BoundMask& mask, const AttentionProblem& problem, const PlanShape& shape) {
  header.tile_m = shape.tile_m;
  header.transposed = shape.transposed ? 1 : 0;
  header.parallelism = shape.parallelism;
  bytes_.resize(sizeof(BuildHeader));
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);

  const int64_t group = problem.group();
  const bool per_kv_head = shape.per_kv_head && groups_share_planes(mask, group);
  header.fold = fold_of(shape.fold);
  if (shape.fold > 1 &&
      (shape.transposed || shape.per_kv_head || header.fold.heads() != shape.fold || group % shape.fold != 0 ||
       shape.tile_m % shape.fold != 0 || !groups_share_planes(mask, group)))
    throw Error(Status::internal,
                cat("a plan that folds ", shape.fold, " of ", group, " query heads into tiles of ", shape.tile_m,
                    " rows; expected rows that are queries, a power of two that divides both, and one plane a group"));
  header.heads = static_cast<int32_t>(per_kv_head ? problem.h_kv : problem.h_q / shape.fold);
  header.group = static_cast<int32_t>(per_kv_head ? 1 : group / shape.fold);
  add_planes(mask);
  add_pairs(mask, problem);
  add_sections(problem);
}

PlanUpload::PlanUpload(const BoundMask& mask) : gathers(true) {
  header.tile_m = plan_tile_n;
  header.fold = fold_of(1);
  bytes_.resize((sizeof(BuildHeader) + alignment - 1) / alignment * alignment);
  add_planes(mask);
}

size_t PlanUpload::append(const void* data, size_t bytes) {
  const size_t at = bytes_.size();
  bytes_.resize(at + (bytes + alignment - 1) / alignment * alignment);
  if (bytes > 0) std::memcpy(bytes_.data() + at, data, bytes);
  return at;
}

// Memory behind the upload; returns where it begins there.
size_t PlanUpload::make(size_t bytes) {
  const size_t at = made_bytes_;
  made_bytes_ += (bytes + 255) / 256 * 256;
  return at;
}

// Arrays the leaf owns are copied as they are; those of the mask, which may have any strides, row by row.
PlanUpload::UploadedLeaf PlanUpload::upload_leaf(const BoundLeaf& leaf) {
  if (leaf.unread) return leaf_on_device(leaf);
  UploadedLeaf out{leaf.args};
  LeafArgs& args = out.args;
  for (size_t slot = 0; slot < std::size(args.data); ++slot) {
    if (args.data[slot] == nullptr) continue;
    size_t at = 0;
    if (slot > 0 && leaf.args.data[slot] == leaf.args.data[0]) {  // one array in two roles
      args.data[slot] = args.data[0];
      out.place[slot] = out.place[0];
      continue;
    }
    if (leaf.held_bytes[slot] > 0) {
      at = append(args.data[slot], static_cast<size_t>(leaf.held_bytes[slot]));
    } else if (args.op == Op::bits || args.op == Op::dense || args.op == Op::threshold || args.op == Op::topk) {
      const int64_t element = args.op == Op::threshold || args.op == Op::topk ? args.size[0] : 1;
      const int64_t cols = args.op == Op::bits ? args.size[0] : args.s_kv;
      const int64_t rows = args.stride[0][0] == 0 ? 1 : args.s_q;
      const auto row_bytes = static_cast<int64_t>(alignment) *
                             ((cols * element + static_cast<int64_t>(alignment) - 1) / static_cast<int64_t>(alignment));
      at = append(nullptr, 0);
      bytes_.resize(at + static_cast<size_t>(rows * row_bytes));
      const auto* from = static_cast<const std::byte*>(leaf.args.data[slot]);
      for (int64_t row = 0; row < rows; ++row) {
        std::byte* to = bytes_.data() + at + row * row_bytes;
        const std::byte* source = from + row * leaf.args.stride[0][0] * element;
        if (leaf.args.stride[0][1] == 1) {
          std::memcpy(to, source, static_cast<size_t>(cols * element));
        } else {
          for (int64_t i = 0; i < cols; ++i)
            std::memcpy(to + i * element, source + i * leaf.args.stride[0][1] * element, static_cast<size_t>(element));
        }
      }
      args.stride[0][0] = args.stride[0][0] == 0 ? 0 : row_bytes / element;
      args.stride[0][1] = 1;
    } else {  // of no elements
      args.data[slot] = nullptr;
      continue;
    }
    args.data[slot] = reinterpret_cast<const void*>(at);
    out.place[slot] = Place::uploaded;
  }
  return out;
}

PlanUpload::UploadedLeaf PlanUpload::leaf_on_device(const BoundLeaf& leaf) {
  UploadedLeaf out{leaf.args};
  for (size_t slot = 0; slot < std::size(out.place); ++slot) {
    if (leaf.held_bytes[slot] == 0) continue;
    out.args.data[slot] = reinterpret_cast<const void*>(make(static_cast<size_t>(leaf.held_bytes[slot])));
    out.place[slot] = Place::made;
  }
  return out;
}

// A leaf, and before it those that its candidates are made of.
void PlanUpload::add_leaf(Steps& to, const BoundLeaf& leaf) {
  if (to.known.contains(&leaf)) return;
  if (leaf.among != nullptr) {
    for (const auto& other : leaf.among->code().leaves) add_leaf(to, *other);
  }
  to.known.emplace(&leaf, static_cast<uint32_t>(to.leaves.size()));
  to.leaves.push_back(upload_leaf(leaf));
  to.bound.push_back(&leaf);
}

BuildPlane PlanUpload::add_plane(Steps& to, const PlaneMask& plane) {
  BuildPlane out{};
  out.s_q = plane.s_q;
  out.s_kv = plane.s_kv;
  if (plane.code().stack > max_device_stack)
    fail_unsupported("attention: the mask is an expression of ", plane.code().leaves.size(), " leaves that needs ",
                     plane.code().stack, " levels; the CUDA backend evaluates ", max_device_stack,
                     ": write out a part of it as bits");
  out.first_step = static_cast<int32_t>(to.steps.size());
  out.num_steps = static_cast<int32_t>(plane.code().steps.size());
  out.band = plane.is_band() ? 1 : 0;
  for (PlaneStep step : plane.code().steps) {
    if (step.step == Step::leaf) {
      const BoundLeaf& leaf = *plane.code().leaves[step.at];
      add_leaf(to, leaf);
      step.at = to.known.at(&leaf);
    }
    to.steps.push_back(step);
  }
  return out;
}

void PlanUpload::add_planes(const BoundMask& mask) {
  Steps all;
  int64_t rows = 0;
  for (const PlaneMask& plane : mask.planes) {
    BuildPlane out = add_plane(all, plane);
    const bool transposed = header.transposed != 0;
    out.m_blocks = blocks(transposed ? plane.s_kv : plane.s_q, tile_rows());
    out.n_blocks = blocks(transposed ? plane.s_q : plane.s_kv, plan_tile_n);
    if (out.n_blocks > max_row_tiles)
      fail_unsupported("attention: a sequence of ", transposed ? plane.s_q : plane.s_kv, " tokens; the CUDA backend ",
                       "plans up to ", int64_t{max_row_tiles} * plan_tile_n, ": call it for pieces of the sequence");
    out.first_row = static_cast<int32_t>(rows);
    rows += out.m_blocks;
    planes.push_back(out);
  }
  if (rows > std::numeric_limits<int32_t>::max() / 2)
    fail_unsupported("attention: the mask's planes have ", rows,
                     " rows of tiles; the CUDA backend counts up to 2^30: ", "split the batch");
  header.num_planes = static_cast<int32_t>(planes.size());
  header.num_rows = static_cast<int32_t>(rows);
  add_selections(all, mask);

  std::vector<LeafArgs> leaves;
  std::vector<MadeLeaf> made;
  for (const BoundLeaf* leaf : all.bound) {
    if (leaf->unread && leaf->held_bytes[0] > 0) {
      made.push_back({static_cast<int32_t>(leaves.size()), {leaf->sources[0], leaf->sources[1]}});
      made_units = std::max(made_units, units_of(leaf->args));
      made_heaps |= leaf->args.op == Op::row_intervals || leaf->args.op == Op::col_intervals;
    }
    leaves.push_back(all.leaves[leaves.size()].args);
  }
  steps_ = append(all.steps.data(), all.steps.size() * sizeof(PlaneStep));
  leaves_ = append(leaves.data(), leaves.size() * sizeof(LeafArgs));
  for (size_t i = 0; i < leaves.size(); ++i) {
    for (size_t slot = 0; slot < std::size(leaves[i].data); ++slot) {
      const Place place = all.leaves[i].place[slot];
      if (place == Place::address) continue;
      (place == Place::made ? made_addresses_ : addresses_)
          .push_back(leaves_ + i * sizeof(LeafArgs) + offsetof(LeafArgs, data) + slot * sizeof(void*));
    }
  }
  num_made = static_cast<int32_t>(made.size());
  if (num_made > 0) made_ = append(made.data(), made.size() * sizeof(MadeLeaf));
}

void PlanUpload::add_pairs(const BoundMask& mask, const AttentionProblem& problem) {
  const auto sequences = static_cast<int64_t>(problem.sequences.size());
  const int64_t pairs = sequences * header.heads;
  if (pairs > std::numeric_limits<int32_t>::max())
    fail_unsupported("attention: ", sequences, " sequences of ", header.heads,
                     " heads; the CUDA backend counts up to 2^31 together: split the batch");
  header.pairs = static_cast<int32_t>(pairs);
  header.pairs_per_entry = mask.heads == 1 ? header.heads : 1;
  const int64_t entries = pairs / std::max(header.pairs_per_entry, 1);
  std::vector<int32_t> plane_of(static_cast<size_t>(entries)), uses_before(plane_of.size());
  std::vector<int32_t> uses(planes.size());
  const int64_t heads_apart = problem.h_q / header.heads;  // query heads of an item's head
  for (int64_t e = 0; e < entries; ++e) {
    const int64_t pair = e * header.pairs_per_entry;
    const int32_t plane = mask.plane(pair / header.heads, pair % header.heads * heads_apart);
    plane_of[static_cast<size_t>(e)] = plane;
    uses_before[static_cast<size_t>(e)] = uses[static_cast<size_t>(plane)]++;
  }
  for (size_t p = 0; p < planes.size(); ++p) {
    planes[p].uses = uses[p] * header.pairs_per_entry;
    max_items += int64_t{planes[p].uses} * planes[p].m_blocks;
  }
  planes_ = append(planes.data(), planes.size() * sizeof(BuildPlane));
  if (planes.size() <= 1) return;
  plane_of_ = append(plane_of.data(), plane_of.size() * sizeof(int32_t));
  uses_before_ = append(uses_before.data(), uses_before.size() * sizeof(int32_t));
}

// What a pair reads over and over: K and V of its kv head, or Q and dO of its query heads.
void PlanUpload::add_sections(const AttentionProblem& problem) {
  const bool transposed = header.transposed != 0;
  const auto bytes_of = [&](const Sequence& s) {  // of one kv head's pairs
    return 2.0 * static_cast<double>(problem.d_qk + problem.d_v) *
           static_cast<double>(transposed ? s.s_q * problem.group() : s.s_kv);
  };
  const auto same = [&](const Sequence& s) {
    return s.s_q == problem.sequences[0].s_q && s.s_kv == problem.sequences[0].s_kv;
  };
  if (problem.sequences.empty()) return;
  if (std::all_of(problem.sequences.begin(), problem.sequences.end(), same)) {
    const double kv_heads = std::clamp(section_bytes / std::max(bytes_of(problem.sequences[0]), 1.0), 1.0,
                                       static_cast<double>(header.pairs / header.group));
    header.pairs_per_section = static_cast<int32_t>(kv_heads) * header.group;
    header.num_sections = (header.pairs + header.pairs_per_section - 1) / header.pairs_per_section;
    return;
  }
  std::vector<int32_t> begin{0};
  double held = 0;
  for (int32_t pair = 0; pair < header.pairs; pair += header.group) {
    const double bytes = bytes_of(problem.sequences[static_cast<size_t>(pair / header.heads)]);
    if (held > 0 && held + bytes > section_bytes) {
      begin.push_back(pair);
      held = 0;
    }
    held += bytes;
  }
  header.num_sections = static_cast<int32_t>(begin.size());
  begin.push_back(header.pairs);
  section_begin_ = append(begin.data(), begin.size() * sizeof(int32_t));
}

std::vector<std::byte> PlanUpload::bytes(const BuildHeader& filled, const void* to) const {
  std::vector<std::byte> out = bytes_;
  std::memcpy(out.data(), &filled, sizeof filled);
  const auto move = [&out](const std::vector<size_t>& places, uintptr_t by) {
    for (const size_t at : places) {
      uintptr_t address;
      std::memcpy(&address, out.data() + at, sizeof address);
      address += by;
      std::memcpy(out.data() + at, &address, sizeof address);
    }
  };
  move(addresses_, reinterpret_cast<uintptr_t>(to));
  move(made_addresses_, reinterpret_cast<uintptr_t>(to) + made_begin());
  return out;
}

PlanBuild PlanUpload::parts(void* to) const {
  PlanBuild build{};
  build.header = static_cast<BuildHeader*>(to);
  build.planes = at_offset<const BuildPlane>(to, planes_);
  build.steps = at_offset<const PlaneStep>(to, steps_);
  build.leaves = at_offset<const LeafArgs>(to, leaves_);
  build.made = at_offset<const MadeLeaf>(to, made_);
  build.selections = at_offset<const TopkPlane>(to, selections_);
  build.candidates = at_offset<const TopkCandidates>(to, candidates_);
  build.plane_of = at_offset<const int32_t>(to, plane_of_);
  build.uses_before = at_offset<const int32_t>(to, uses_before_);
  build.section_begin = at_offset<const int32_t>(to, section_begin_);
  return build;
}

}  // namespace anymask
