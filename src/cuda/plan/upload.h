// A bound mask as one block of memory for the device: planes, their steps and leaves, the arrays leaves point into, and
// which sequences and heads use which plane. A few hundred bytes for masks of parameters and short offsets. Arrays on
// the device are not copied: they are read where they lie, or what leaves read is made of them behind the upload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/problem.h"
#include "cuda/launch/kernel.h"
#include "cuda/plan/plan_data.h"
#include "cuda/plan/selected_plane.h"
#include "mask/bound_mask.h"

namespace anymask {

// K and V of the heads that run together: what stays in the second-level cache beside everything else.
inline constexpr double section_bytes = 16e6;

class PlanUpload {
 public:
  // Items count query heads, as many as are folded at a time, or kv heads where the shape asks for it and the heads of
  // each group share a plane.
  PlanUpload(const BoundMask& mask, const AttentionProblem& problem, const PlanShape& shape);

  // What a mask selects and no plan: for calls over gathered keys, where every selected_plane() is_shared() or
  // is_banded().
  explicit PlanUpload(const BoundMask& mask);

  // For the device, once the capacities in `header` are known. Addresses count from `to`.
  std::vector<std::byte> bytes(const BuildHeader& header, const void* to) const;
  size_t size() const { return made_begin() + made_bytes_; }  // of device memory
  // Where the parts lie once uploaded to `to`.
  PlanBuild parts(void* to) const;

  BuildHeader header{};
  std::vector<BuildPlane> planes;
  int32_t tile_rows() const { return header.fold.tokens(header.tile_m); }  // of a plane, in a tile
  int64_t max_items = 0;   // rows of tiles over all pairs: items, when nothing is split
  int32_t num_made = 0;    // leaves made on the device
  int64_t made_units = 0;  // of the largest, what a warp makes at once
  bool made_heaps = false;

  // Rows of one type whose largest are selected before the plan's leaves are evaluated, in this order, each after its
  // candidates: both stretches of PlanBuild's arrays.
  struct Selection {
    DType dtype;
    int32_t level;  // of topk leaves among whose candidates are such leaves
    int32_t first, planes, rows;
    int32_t first_candidates, candidates;
    int64_t keys;               // of the longest row
    int64_t candidate_threads;  // of the candidates that want most
  };
  std::vector<Selection> selections;
  // The last of them writes the plan's bit tiles itself: every plane is topk, or topk & something.
  bool emits_tiles = false;
  // The selections are those of the planes, in their order, each with the limits of its bands.
  bool gathers = false;

 private:
  size_t made_begin() const { return (bytes_.size() + 255) / 256 * 256; }
  size_t append(const void* data, size_t bytes);  // aligned to 16; returns where
  size_t make(size_t bytes);
  void add_planes(const BoundMask& mask);
  // A leaf's arrays: each an address as it is, or a place in the upload or behind it.
  enum class Place : uint8_t { address, uploaded, made };
  struct UploadedLeaf {
    LeafArgs args;
    Place place[4] = {};
  };
  UploadedLeaf upload_leaf(const BoundLeaf& leaf);
  UploadedLeaf leaf_on_device(const BoundLeaf& leaf);
  struct Steps;
  void add_leaf(Steps& to, const BoundLeaf& leaf);
  BuildPlane add_plane(Steps& to, const PlaneMask& plane);
  BuildPlane add_steps(Steps& to, const Operand& operand, const LeafArgs& lengths);  // of leaves that are there
  class Selector;
  void add_selections(Steps& steps, const BoundMask& mask);
  void add_pairs(const BoundMask& mask, const AttentionProblem& problem);
  void add_sections(const AttentionProblem& problem);

  std::vector<std::byte> bytes_;
  size_t planes_ = 0, steps_ = 0, leaves_ = 0, made_ = 0, selections_ = 0, candidates_ = 0, plane_of_ = 0,
         uses_before_ = 0,
         section_begin_ = 0;            // 0: none
  std::vector<size_t> addresses_;       // where bytes_ holds the place of an array, to become an address
  std::vector<size_t> made_addresses_;  // the same, of places behind the upload
  size_t made_bytes_ = 0;
};

}  // namespace anymask
