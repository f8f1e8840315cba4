#include "cuda/launch/gathered.h"

#include <algorithm>
#include <cstring>

#include "cuda/config/topk_select.h"
#include "cuda/launch/plan_build.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

// Heads that a bias, and the planes of a mask, tell apart: 1, h_kv or h_q.
int64_t heads_apart(const BoundMask& mask, const AttentionProblem& problem) {
  return mask.heads == 1 ? 1 : groups_share_planes(mask, problem.group()) ? problem.h_kv : problem.h_q;
}

// Of each plane; empty: some plane is none that gathers.
std::vector<int64_t> windows_of(const BoundMask& mask) {
  std::vector<int64_t> windows;
  for (const PlaneMask& plane : mask.planes) {
    const std::optional<SelectedPlane> selected = shared_selection(plane);
    if (!selected) return {};
    windows.push_back(selected->topk->args.ints[1]);
  }
  return windows;
}

// Keys on the gathered axis of a sequence, whose planes have one window.
int64_t width_of(const BoundMask& mask, const std::vector<int64_t>& windows, size_t sequence) {
  return windows[static_cast<size_t>(mask.plane(static_cast<int64_t>(sequence), 0))];
}

bool windows_differ(const BoundMask& mask, const std::vector<int64_t>& windows) {
  for (size_t i = 0; i < mask.plane_of.size(); ++i) {
    const size_t first = i - i % static_cast<size_t>(mask.heads);
    const auto window = [&](size_t at) { return windows[static_cast<size_t>(mask.plane_of[at])]; };
    if (window(i) != window(first)) return true;
  }
  return false;
}

}  // namespace

Support gathers(const AttentionProblem& problem, const BoundMask& mask) {
  if (problem.max_s_q == 0) return {false, ""};
  const std::vector<int64_t> windows = windows_of(mask);
  if (windows.empty()) return {false, ""};
  if (std::count(windows.begin(), windows.end(), 0) > 0) return {false, "a window is 0"};
  if (std::max(heads_apart(mask, problem), problem.h_q) > 65535 || problem.sequences.size() > 65535)
    return {false, "there are more than 65,535 heads or sequences"};
  if (windows_differ(mask, windows)) return {false, "heads have windows of different sizes"};
  if (problem.alibi.defined()) return {false, "ALiBi asks for the positions of keys"};
  if (problem.bias.defined() && problem.bias.shape[2] > 1)
    return {false, "the bias that is added has a row for each query"};
  // Per kv head, in what reading a key costs a row of 128 queries: a gathered key is read, written and read again.
  double all = 0, gathered = 0;
  const int64_t heads = std::max(heads_apart(mask, problem), problem.h_kv) / problem.h_kv;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& sequence = problem.sequences[s];
    const double rows = static_cast<double>(sequence.s_q * problem.group()) / 128;
    all += static_cast<double>(sequence.s_kv) * (1 + rows);
    gathered += static_cast<double>(width_of(mask, windows, s)) * (3 * static_cast<double>(heads) + rows);
  }
  if (gathered > all) return {false, "so few keys would be left out that copying costs more"};
  return {};
}

GatheredKeys::GatheredKeys(const AttentionProblem& problem, const BoundMask& mask, Direction direction,
                           const CudaDevice& device, void* memory)
    : device_(device), direction_(direction), selection_(mask), problem_(problem) {
  const bool backward = direction == Direction::backward;
  Carve carve(memory);
  selection_memory_ = carve.take<std::byte>(selection_.size());
  const int64_t apart = heads_apart(mask, problem);
  problem_.h_kv = std::max(apart, problem.h_kv);

  params_.num_planes = static_cast<int32_t>(mask.planes.size());
  params_.num_sequences = static_cast<int32_t>(problem.sequences.size());
  params_.plane_heads = static_cast<int32_t>(mask.heads);
  params_.h_q = static_cast<int32_t>(problem.h_q);
  params_.h_kv = static_cast<int32_t>(problem.h_kv);
  params_.heads = static_cast<int32_t>(problem_.h_kv);
  params_.d_qk = static_cast<int32_t>(problem.d_qk);
  params_.d_v = static_cast<int32_t>(problem.d_v);
  params_.dtype = problem.dtype;
  params_.bias_heads = static_cast<int32_t>(std::max(apart, problem.bias.defined() ? problem.bias.shape[1] : 1));
  add_tables(problem, mask, backward, carve);
  add_tensors(problem, backward, carve);
  bytes_ = carve.bytes();
}

// Lists and ends of the planes, and the axis of each sequence.
void GatheredKeys::add_tables(const AttentionProblem& problem, const BoundMask& mask, bool backward, Carve& carve) {
  std::vector<GatherPlane> planes;
  for (const PlaneMask& plane : mask.planes) {
    const SelectedPlane selected = *shared_selection(plane);
    const LeafArgs& topk = selected.topk->args;
    GatherPlane out{};
    out.width = static_cast<int32_t>(topk.ints[1]);
    out.lines = static_cast<int32_t>(selected.rest.empty() ? 1 : plane.s_q);
    out.infinity = static_cast<int32_t>(topk.ints[0]);
    out.bytes = static_cast<int32_t>(topk.size[0]);
    out.keys = carve.take<int32_t>(static_cast<size_t>(out.width));
    out.count = carve.take<int32_t>(1);
    out.slots = backward ? carve.take<int32_t>(static_cast<size_t>(plane.s_kv)) : nullptr;
    out.begins = carve.take<int64_t>(static_cast<size_t>(out.lines));
    out.ends = carve.take<int64_t>(static_cast<size_t>(out.lines));
    planes.push_back(out);
    extents_.keys = std::max(extents_.keys, plane.s_kv);
    extents_.lines = std::max<int64_t>(extents_.lines, out.lines);
  }
  params_.stretch = gather_stretch(extents_.keys);

  const std::vector<int64_t> windows = windows_of(mask);
  std::vector<GatherSequence> sequences;
  int64_t tokens = 0;
  problem_.max_s_kv = 0;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& from = problem.sequences[s];
    const int64_t width = width_of(mask, windows, s);
    sequences.push_back({from.batch, from.kv_begin, from.batch, problem.packed ? tokens : 0,
                         static_cast<int32_t>(from.s_kv), static_cast<int32_t>(width)});
    keys_ += from.s_kv;
    kept_ += width;
    tokens += width;
    problem_.max_s_kv = std::max(problem_.max_s_kv, width);
  }
  params_.width = static_cast<int32_t>(problem_.max_s_kv);
  for (size_t s = 0; s < sequences.size(); ++s) {
    // Batch entries have axes of one length, as their tensors do.
    if (!problem.packed) sequences[s].width = params_.width;
    problem_.sequences[s].kv_begin = sequences[s].to_begin;
    problem_.sequences[s].s_kv = sequences[s].width;
  }

  // The inner mask: a plane for each plane, of the length its sequences have now.
  mask_.heads = mask.heads;
  mask_.plane_of = mask.plane_of;
  std::vector<int64_t> lengths(planes.size());
  for (size_t i = 0; i < mask.plane_of.size(); ++i)
    lengths[static_cast<size_t>(mask.plane_of[i])] = sequences[i / static_cast<size_t>(mask.heads)].width;
  for (size_t p = 0; p < planes.size(); ++p)
    mask_.planes.push_back(row_band(mask.planes[p].s_q, lengths[p], planes[p].lines, planes[p].begins, planes[p].ends));

  const auto append = [this](const auto& values) {
    const size_t at = tables_.size(), bytes = values.size() * sizeof(values[0]);
    tables_.resize(at + (bytes + 15) / 16 * 16);
    if (bytes > 0) std::memcpy(tables_.data() + at, values.data(), bytes);
    return at;
  };
  const size_t planes_at = append(planes), sequences_at = append(sequences), plane_of_at = append(mask.plane_of);
  auto* const memory = carve.take<std::byte>(tables_.size());
  if (memory == nullptr) return;
  params_.selected = selection_.parts(selection_memory_).selections;
  params_.planes = reinterpret_cast<const GatherPlane*>(memory + planes_at);
  params_.sequences = reinterpret_cast<const GatherSequence*>(memory + sequences_at);
  params_.plane_of = reinterpret_cast<const int32_t*>(memory + plane_of_at);
}

void GatheredKeys::add_tensors(const AttentionProblem& problem, bool backward, Carve& carve) {
  const auto view = [](const Tensor4& t) { return CudaTensor{t.data, t.stride_b, t.stride_s, t.stride_h}; };
  // [b, h, w, d], packed [h, all w, d].
  int64_t tokens = problem_.max_s_kv, batches = static_cast<int64_t>(problem.sequences.size());
  if (problem.packed) {
    tokens = kept_;
    batches = 1;
  }
  const auto gathered = [&](Tensor4& tensor, int64_t dim) {
    const int64_t stride = (dim + 7) / 8 * 8;
    tensor.data = carve.take<uint16_t>(static_cast<size_t>(batches * problem_.h_kv * tokens * stride));
    tensor.stride_s = stride;
    tensor.stride_h = tokens * stride;
    tensor.stride_b = problem.packed ? 0 : problem_.h_kv * tokens * stride;
    return view(tensor);
  };
  bool aligned = problem.d_qk % 8 == 0 && problem.d_v % 8 == 0;
  const auto add_source = [&](const Tensor4& t) {
    aligned &= reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride_b % 8 == 0 && t.stride_s % 8 == 0 &&
               t.stride_h % 8 == 0;
    return view(t);
  };
  params_.k = add_source(problem.k);
  params_.v = add_source(problem.v);
  params_.gathered_k = gathered(problem_.k, problem.d_qk);
  params_.gathered_v = gathered(problem_.v, problem.d_v);
  if (backward) {
    params_.dk = add_source(problem.dk);
    params_.dv = add_source(problem.dv);
    params_.gathered_dk = gathered(problem_.dk, problem.d_qk);
    params_.gathered_dv = gathered(problem_.dv, problem.d_v);
  }
  params_.aligned = aligned ? 1 : 0;

  // [sequences, heads, 1, w].
  const auto bias_view = [](const Bias& b) {
    return CudaBias{b.data, b.stride_b, b.stride_h, b.stride_q, b.stride_kv, static_cast<int32_t>(b.group), b.dtype};
  };
  const auto gathered_bias = [&](Bias& bias, DType dtype) {
    const auto sequences = static_cast<int64_t>(problem.sequences.size());
    const int64_t heads = params_.bias_heads, width = problem_.max_s_kv;
    bias.data = carve.take<std::byte>(static_cast<size_t>(sequences * heads * width) * size_of(dtype));
    bias.dtype = dtype;
    const int64_t shape[4] = {sequences, heads, 1, width};
    std::copy(std::begin(shape), std::end(shape), std::begin(bias.shape));
    bias.stride_b = sequences == 1 ? 0 : heads * width;
    bias.stride_h = heads == 1 ? 0 : width;
    bias.stride_q = 0;
    bias.stride_kv = 1;
    bias.group = heads == 1 ? 1 : problem.h_q / heads;
    return bias_view(bias);
  };
  if (problem.bias.defined()) {
    params_.bias = bias_view(problem.bias);
    params_.gathered_bias = gathered_bias(problem_.bias, problem.bias.dtype);
  }
  if (backward && problem.dbias.defined()) {
    params_.dbias = bias_view(problem.dbias);
    std::copy(std::begin(problem.dbias.shape), std::end(problem.dbias.shape), std::begin(params_.dbias_shape));
    params_.gathered_dbias = gathered_bias(problem_.dbias, DType::f32);
  }
}

void GatheredKeys::enqueue_before(cudaStream_t stream) const {
  const PlanBuild build = selection_.parts(selection_memory_);
  PlanBuildShape shape{};
  shape.num_made = selection_.num_made;
  shape.made_units = selection_.made_units;
  shape.made_heaps = selection_.made_heaps;
  shape.selections = selection_.selections;
  upload_plan(selection_.bytes(selection_.header, build.header), build.header, stream);
  launch_selections(build, shape, device_, stream);
  upload_plan(tables_, const_cast<GatherPlane*>(params_.planes), stream);
  launch_gather(params_, extents_, stream);
}

void GatheredKeys::enqueue_after(cudaStream_t stream) const {
  if (direction_ == Direction::backward) launch_scatter(params_, extents_, stream);
}

std::vector<Fact> GatheredKeys::facts() const {
  std::vector<Fact> facts;
  for (const PlanUpload::Selection& selection : selection_.selections) {
    for (Fact& fact : choose_topk_select(selection.dtype, selection.rows, selection.keys, device_).facts())
      facts.push_back(std::move(fact));
  }
  facts.push_back({"keys", cat("gathered: ", kept_, " of ", keys_, " a head, in all sequences together")});
  return facts;
}

}  // namespace anymask
