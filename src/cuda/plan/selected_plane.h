// A plane that keeps what one topk leaf selects, but for what stands beside it: topk & candidates & rest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mask/bound_mask.h"
#include "mask/plane_steps.h"

namespace anymask {

struct BoundLeaf;

// A topk leaf that the device selects for.
bool is_selected(const BoundLeaf& leaf);
// The leaf among whose candidates no such leaf stands has level 0.
int32_t level_of(const BoundLeaf& leaf);

// An operand of the plane's conjunction: its steps, without skips.
struct OperandStep {
  PlaneStep step;
  const BoundLeaf* leaf;  // null: a step that is none
};
using Operand = std::vector<OperandStep>;

struct SelectedPlane {
  const BoundLeaf* topk;
  // Beside it, but for its candidates, of which the selection keeps some.
  std::vector<Operand> rest;
  bool rest_is_bands = true;  // leaves that are
  // All operands that are leaves and bands, candidates too: no pair is kept outside them.
  std::vector<const BoundLeaf*> bounds;
};

// One after the other, joined by `and`.
Operand conjunction_of(const std::vector<Operand>& operands);

// Nothing: the plane is something else.
std::optional<SelectedPlane> selected_plane(const PlaneMask& plane);

// Whose selection is the same for all rows, beside bands alone: its keys can be gathered.
bool is_shared(const SelectedPlane& plane);

// Whose rows choose in one row of biases, each among the keys of a band that the host knows, beside bands alone: what
// neighbours keep differs by few keys, which can be gathered for a block of rows.
bool is_banded(const SelectedPlane& plane);

}  // namespace anymask
