#include "cuda/launch/band.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "cuda/launch/params.h"
#include "cuda/launch/plan_build.h"
#include "cuda/plan/split.h"
#include "cuda/plan/upload.h"
#include "mask/plane_code.h"
#include "plan/band_rows.h"

namespace anymask {
namespace {

constexpr uint32_t max_levels = 2;
constexpr int64_t max_tokens = int64_t{1} << 29;  // of a sequence: sums of two fit 32 bits
constexpr int64_t most = std::numeric_limits<int32_t>::max();
// Rows of tiles that are put in order by their cost; more of them go from the last to the first, whatever they cost.
constexpr int64_t max_ordered = 256;

// Values beyond what any row or key is say no more than this one.
int32_t narrow(int64_t x) { return static_cast<int32_t>(std::clamp<int64_t>(x, -max_tokens, max_tokens)); }

// Rows of tiles by falling cost, in their usual order among equals (keys from the first to the last, queries the other
// way); nothing where that is the order anyway. `tokens` queries stand in a row, or with `transposed` keys.
std::vector<uint16_t> order_of(const PlaneMask& plane, int64_t tokens, bool transposed) {
  const int64_t lines = transposed ? plane.s_kv : plane.s_q;
  if ((lines + tokens - 1) / tokens > max_ordered) return {};
  const Grid grid{.rows = lines,
                  .cols = transposed ? plane.s_q : plane.s_kv,
                  .tile_m = static_cast<int32_t>(tokens),
                  .tile_n = plan_tile_n,
                  .m_blocks = static_cast<int32_t>((lines + tokens - 1) / tokens),
                  .transposed = transposed};
  std::vector<int32_t> tiles;
  for (int32_t m = 0; m < grid.m_blocks; ++m) {
    const auto [begin, end] = band_span(plane, grid, m);
    tiles.push_back(end - begin);
  }
  std::vector<uint16_t> order(tiles.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  if (!transposed) std::reverse(order.begin(), order.end());
  const auto longer = [&tiles](uint16_t a, uint16_t b) { return tiles[a] > tiles[b]; };
  if (std::is_sorted(order.begin(), order.end(), longer)) return {};
  std::stable_sort(order.begin(), order.end(), longer);
  return order;
}

// Query heads of one item.
int64_t heads_of_item(const AttentionProblem& problem, const PlanShape& shape) {
  return shape.transposed ? (shape.per_kv_head ? problem.group() : 1) : shape.fold;
}
int64_t rows_of(const Sequence& s, const PlanShape& shape) {
  const int64_t tokens = shape.tile_m / shape.fold;
  return ((shape.transposed ? s.s_kv : s.s_q) + tokens - 1) / tokens;
}

// Whether sequences have one length, and their rows as many pieces.
bool all_alike(const AttentionProblem& problem, std::span<const int32_t> pieces) {
  for (size_t s = 1; s < pieces.size(); ++s) {
    const Sequence &one = problem.sequences[0], &other = problem.sequences[s];
    if (one.s_q != other.s_q || one.s_kv != other.s_kv || pieces[0] != pieces[s]) return false;
  }
  return true;
}

// Of each sequence's rows; 0: some have more than others.
std::vector<int32_t> pieces_of_sequences(const BoundMask& mask, const AttentionProblem& problem,
                                         std::span<const int32_t> of_planes, int64_t fold) {
  std::vector<int32_t> pieces(problem.sequences.size(), 1);
  for (size_t s = 0; s < pieces.size(); ++s) {
    if (problem.sequences[s].s_q == 0) continue;
    const auto of = [&](int64_t head) {
      return of_planes[static_cast<size_t>(mask.plane(static_cast<int64_t>(s), head))];
    };
    pieces[s] = of(0);
    for (int64_t head = fold; mask.heads > 1 && head < problem.h_q; head += fold) {
      if (of(head) != pieces[s]) pieces[s] = 0;
    }
  }
  return pieces;
}

}  // namespace

std::string why_no_band(const BoundMask& mask) {
  for (const PlaneMask& plane : mask.planes) {
    const PlaneMask::Code& code = plane.code();
    if (plane.unread()) return "arrays of the mask lie on the device, where plans are made";
    if (!code.band) return "a row may keep more than one interval of keys, or one that moves backward";
    if (code.stack > max_levels)
      return cat("the expression needs ", code.stack, " levels of evaluation; without a plan it may need ", max_levels);
    if (code.leaves.size() > std::numeric_limits<uint16_t>::max() ||
        !std::all_of(code.leaves.begin(), code.leaves.end(), [](const auto& leaf) { return leaf->ops->ends; }))
      return "a kind of mask does not say where its rows end in a form that kernels read";
    if (plane.s_q > max_tokens || plane.s_kv > max_tokens) return "sequences have more than 2^29 tokens";
  }
  return {};
}

BandSource::BandSource(const BoundMask& mask, const AttentionProblem& problem, const PlanShape& shape, bool reads)
    : refusal_(reads ? why_no_band(mask) : "three warpgroups leave the kernel no registers to evaluate rows with") {
  const int64_t fold = heads_of_item(problem, shape), heads = problem.h_q / fold;
  if (!refusal_.empty()) return;

  std::vector<PlaneUse> uses;
  for (const PlaneMask& plane : mask.planes) uses.push_back({0, (plane.s_kv + plan_tile_n - 1) / plan_tile_n});
  int64_t items = 0;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    items += rows_of(problem.sequences[s], shape) * heads;
    for (int64_t head = 0; head < heads; ++head)
      ++uses[static_cast<size_t>(mask.plane(static_cast<int64_t>(s), head * fold))].pairs;
  }
  if (items > most / 2 || static_cast<int64_t>(problem.sequences.size()) * heads > most / 2) {
    refusal_ = "there are more than 2^30 items";
    return;
  }
  const std::vector<int32_t> pieces = pieces_of_sequences(mask, problem, band_pieces(mask, uses, items, shape), fold);
  items = 0;
  for (size_t s = 0; s < pieces.size(); ++s) {
    items += rows_of(problem.sequences[s], shape) * heads * pieces[s];
    if (pieces[s] > 1) slots_ = 1;
  }
  if (std::find(pieces.begin(), pieces.end(), 0) != pieces.end()) {
    refusal_ = cat("for ", shape.parallelism, " blocks some rows are cut into more pieces than others");
    return;
  }
  slots_ *= items;  // an item's slot has its number

  band_.present = 1;
  band_.num_items = static_cast<int32_t>(items);
  band_.heads = static_cast<int32_t>(heads);
  band_.first_to_last = shape.transposed ? 1 : 0;
  block_.resize(16);  // offset 0 is none
  add_planes(mask);
  // Heads of an item share their planes.
  band_.plane_heads = mask.heads == 1 ? 1 : static_cast<int32_t>(heads);
  if (mask.planes.size() > 1) {
    std::vector<int32_t> plane_of;
    for (size_t s = 0; s < problem.sequences.size(); ++s) {
      for (int32_t head = 0; head < band_.plane_heads; ++head)
        plane_of.push_back(mask.plane(static_cast<int64_t>(s), head * fold));
    }
    band_.plane_of = append(plane_of);
  }
  add_sections(problem, mask, shape, pieces);
  if (block_.size() > std::numeric_limits<uint32_t>::max()) refusal_ = "arguments of the mask take more than 4 GB";
}

template <class T>
uint32_t BandSource::append(const std::vector<T>& values) {
  const size_t at = block_.size(), bytes = values.size() * sizeof(T);
  block_.resize(at + (bytes + 15) / 16 * 16);
  if (bytes > 0) std::memcpy(block_.data() + at, values.data(), bytes);
  return static_cast<uint32_t>(at);
}

void BandSource::add_planes(const BoundMask& mask) {
  std::vector<BandPlane> planes;
  std::vector<BandStep> steps;
  std::vector<BandLeaf> leaves;
  std::map<std::pair<const int64_t*, int64_t>, uint32_t> known;  // arrays, which ends share
  const auto array = [&](const int64_t* from, int64_t count) {
    const auto [found, inserted] = known.try_emplace({from, count}, 0);
    if (inserted) {
      std::vector<int32_t> values;
      for (int64_t i = 0; i < count; ++i) values.push_back(narrow(from[i]));
      found->second = append(values);
    }
    return found->second;
  };
  const auto term = [&](const BandEnd& end) {
    BandTerm out{static_cast<int32_t>(end.form),
                 narrow(end.a),
                 narrow(end.size),
                 narrow(end.low),
                 narrow(end.high),
                 0,
                 0,
                 narrow(end.n)};
    if (end.form == BandEnd::Form::stretch) {
      out.rows = array(end.rows, end.n + 1);
      out.values = array(end.values, end.n);
    }
    return out;
  };
  for (const PlaneMask& plane : mask.planes) {
    BandPlane out{};
    out.s_q = static_cast<int32_t>(plane.s_q);
    out.s_kv = static_cast<int32_t>(plane.s_kv);
    out.first_step = static_cast<int32_t>(steps.size());
    out.first_leaf = static_cast<int32_t>(leaves.size());
    for (const PlaneStep& step : plane.code().steps) {
      if (step.step == Step::skip_if_empty || step.step == Step::skip_if_full) continue;
      steps.push_back({static_cast<uint8_t>(step.step), step.from_begin, static_cast<uint16_t>(step.at)});
    }
    out.num_steps = static_cast<int32_t>(steps.size()) - out.first_step;
    for (const auto& bound : plane.code().leaves) {
      const BandEnds ends = bound->ops->ends(bound->args);
      leaves.push_back({term(ends.begin), term(ends.end)});
    }
    planes.push_back(out);
  }
  band_.planes = append(planes);
  band_.steps = append(steps);
  band_.leaves = append(leaves);
}

void BandSource::add_sections(const AttentionProblem& problem, const BoundMask& mask, const PlanShape& shape,
                              std::span<const int32_t> pieces) {
  const std::vector<Sequence>& sequences = problem.sequences;
  // Items that read the same: K and V of a kv head, or Q and dO of a query head, or of all of an item's.
  const int64_t heads_of = heads_of_item(problem, shape);
  const int64_t group = shape.transposed ? 1 : std::max<int64_t>(problem.group() / heads_of, 1);
  const auto bytes_of = [&](const Sequence& s) {
    return 2.0 * static_cast<double>((problem.d_qk + problem.d_v) * (shape.transposed ? s.s_q * heads_of : s.s_kv));
  };
  const auto pairs_of = [&](const Sequence& s, int64_t pairs) {
    const double kv_heads = std::clamp(section_bytes / std::max(bytes_of(s), 1.0), 1.0, static_cast<double>(pairs));
    return std::clamp<int64_t>(static_cast<int64_t>(kv_heads) * group, 1, std::max<int64_t>(pairs, 1));
  };
  if (!uniform_sequences(problem)) band_.sequences = append(cuda_sequences(problem));
  if (sequences.empty()) return;
  if (all_alike(problem, pieces)) {
    band_.num_splits = pieces[0];
    band_.m_blocks = static_cast<int32_t>(rows_of(sequences[0], shape));
    band_.pairs = static_cast<int32_t>(static_cast<int64_t>(sequences.size()) * band_.heads);
    band_.pairs_per_section = static_cast<int32_t>(pairs_of(sequences[0], band_.pairs));
    if (mask.planes.size() == 1) {
      const std::vector<uint16_t> order = order_of(mask.planes[0], shape.tile_m / shape.fold, shape.transposed);
      if (!order.empty()) band_.order = append(order);
    }
    return;
  }
  // Sequences with most pairs come first.
  std::vector<int32_t> order(sequences.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size = [&](int32_t s) {
    const Sequence& of = sequences[static_cast<size_t>(s)];
    return static_cast<double>(of.s_q) * static_cast<double>(of.s_kv);
  };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return size(a) > size(b); });
  std::vector<BandSection> sections;
  int32_t item = 0;
  for (const int32_t s : order) {
    const auto blocks = static_cast<int32_t>(rows_of(sequences[static_cast<size_t>(s)], shape));
    if (blocks == 0) continue;
    const auto step = static_cast<int32_t>(pairs_of(sequences[static_cast<size_t>(s)], band_.heads));
    for (int32_t head = 0; head < band_.heads; head += step) {
      const int32_t heads = std::min(step, band_.heads - head);
      const int32_t num_splits = pieces[static_cast<size_t>(s)];
      sections.push_back({item, s, head, heads, blocks, num_splits});
      item += heads * blocks * num_splits;
    }
  }
  band_.num_sections = static_cast<int32_t>(sections.size());
  band_.sections = append(sections);
}

size_t BandSource::bytes() const { return block_.size() <= CudaBand::inline_bytes ? 0 : block_.size(); }

void BandSource::enqueue(CudaBand& to, void* memory, cudaStream_t stream) const {
  std::memcpy(&to, &band_, offsetof(CudaBand, bytes));
  if (bytes() == 0) {
    std::memcpy(to.bytes, block_.data(), block_.size());
  } else {
    upload_plan(block_, memory, stream);
    to.data = static_cast<const std::byte*>(memory);
  }
}

}  // namespace anymask
