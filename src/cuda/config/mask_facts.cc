#include "cuda/config/mask_facts.h"

#include <algorithm>

#include "mask/plane_code.h"

namespace anymask {
namespace {

constexpr int64_t max_planes = 4, sample_rows = 256, samples = 8, stretches = 16;  // at most 512 rectangles

bool reads_pairs(const PlaneMask& plane) {
  const auto& leaves = plane.code().leaves;
  return std::any_of(leaves.begin(), leaves.end(), [](const auto& leaf) {
    const Op op = leaf->args.op;
    return op == Op::bits || op == Op::dense || op == Op::threshold || op == Op::topk;
  });
}

// Of eight bands of rows, against sixteenths of the keys.
int64_t long_keys_of(const PlaneMask& plane) {
  const int64_t stretch = plane.s_kv / stretches;
  if (plane.s_q < sample_rows || plane.s_kv < long_row || plane.unread() || reads_pairs(plane)) return 0;
  int64_t keys = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t begin = plane.s_q * (2 * i + 1) / (2 * samples), end = std::min(begin + sample_rows, plane.s_q);
    for (int64_t at = 0; at < stretches; ++at) {
      const Rect rect{begin, end, at * stretch, (at + 1) * stretch};
      if (plane.classify(rect) == Kept::full) keys += stretch;
    }
  }
  return keys / samples;
}

}  // namespace

MaskFacts mask_facts(const BoundMask& mask, int64_t group) {
  MaskFacts facts{.groups_share_plane = groups_share_planes(mask, group)};
  const auto planes = static_cast<int64_t>(mask.planes.size()), sampled = std::min(planes, max_planes);
  for (int64_t i = 0; i < sampled; ++i) {
    facts.long_keys += long_keys_of(mask.planes[static_cast<size_t>(planes * i / sampled)]) / sampled;
  }
  return facts;
}

}  // namespace anymask
