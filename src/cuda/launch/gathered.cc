#include "cuda/launch/gathered.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "cuda/config/topk_select.h"
#include "cuda/launch/plan_build.h"
#include "cuda/launch/topk_select.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

CudaTensor view(const Tensor4& t) { return {t.data, t.stride_b, t.stride_s, t.stride_h}; }
CudaBias view(const Bias& b) {
  return {b.data, b.stride_b, b.stride_h, b.stride_q, b.stride_kv, static_cast<int32_t>(b.group), b.dtype};
}

// Its batch entry alone, as a packed tensor.
Tensor4 entry(Tensor4 t, int64_t batch) {
  if (!t.defined()) return t;
  t.data = static_cast<std::byte*>(t.data) + batch * t.stride_b * static_cast<int64_t>(size_of(t.dtype));
  t.stride_b = 0;
  return t;
}
RowStat entry(RowStat r, int64_t batch) {
  if (!r.defined()) return r;
  r.data = static_cast<float*>(r.data) + batch * r.stride_b;
  r.stride_b = 0;
  return r;
}

// Lists of several planes may have one size, and equal masks are one: while only the size is asked for, places that no
// one reads keep them apart.
void* or_nowhere(void* memory) { return memory != nullptr ? memory : reinterpret_cast<void*>(Carve::alignment); }

}  // namespace

GatheredKeys::GatheredKeys(const AttentionProblem& problem, const BoundMask& mask, const GatherLayout& layout,
                           Direction direction, const CudaDevice& device, void* memory)
    : device_(device),
      backward_(direction == Direction::backward),
      by_rows_(layout.by_rows),
      by_columns_(layout.by_columns),
      blocks_(layout.blocks),
      selection_(mask),
      problem_(problem) {
  Carve carve(or_nowhere(memory));
  selection_memory_ = carve.take<std::byte>(selection_.size());
  const int64_t apart = heads_apart(mask, problem);
  problem_.h_kv = std::max(apart, problem.h_kv);

  params_.plane_heads = static_cast<int32_t>(mask.heads);
  params_.h_q = static_cast<int32_t>(problem.h_q);
  params_.h_kv = static_cast<int32_t>(problem.h_kv);
  params_.heads = static_cast<int32_t>(problem_.h_kv);
  params_.d_qk = static_cast<int32_t>(problem.d_qk);
  params_.d_v = static_cast<int32_t>(problem.d_v);
  params_.dtype = problem.dtype;
  params_.bias_heads = static_cast<int32_t>(std::max(apart, problem.bias.defined() ? problem.bias.shape[1] : 1));
  add_planes(mask, carve);
  add_sequences(problem);
  add_tables(carve);
  add_tensors(problem, carve);
  if (by_rows_ && !problem.packed) {
    for (const GatherSource& source : sources_)
      if (source.count > 0) add_call(problem, source, source.count);
  } else {
    add_call(problem, {}, params_.num_sequences);
  }
  bytes_ = carve.bytes();
}

// The lists of every plane, one for each block of its rows, and which sequences see them.
void GatheredKeys::add_planes(const BoundMask& mask, Carve& carve) {
  std::vector<bool> bounded;  // planes by bands beside their selection
  for (const PlaneMask& plane : mask.planes) {
    const SelectedPlane selected = *selected_plane(plane);
    topk_.push_back(selected.topk->args);
    bounded.push_back(!selected.rest.empty());
  }
  std::vector<int32_t> first_list(mask.planes.size(), -1);  // of a plane
  const auto heads = static_cast<size_t>(mask.heads);
  for (size_t i = 0; i < mask.plane_of.size(); ++i) {
    const auto p = static_cast<size_t>(mask.plane_of[i]);
    if (first_list[p] >= 0) continue;
    first_list[p] = static_cast<int32_t>(planes_.size());
    const LeafArgs& topk = topk_[p];
    for (const GatherBlock& block : blocks_[i / heads]) {
      GatherPlane out{};
      out.source = static_cast<int32_t>(p);
      out.first_row = static_cast<int32_t>(block.first);
      out.width = static_cast<int32_t>(block.width);
      out.infinity = static_cast<int32_t>(topk.ints[0]);
      out.bytes = static_cast<int32_t>(topk.size[0]);
      out.keys = carve.take<int32_t>(static_cast<size_t>(out.width));
      out.count = carve.take<int32_t>(1);
      if (backward_) out.slots = carve.take<int32_t>(static_cast<size_t>(topk.s_kv));
      out.lines = static_cast<int32_t>(by_rows_ || bounded[p] ? block.rows : 1);
      const auto lines = static_cast<size_t>(out.lines);
      if (!by_rows_ || bounded[p]) {
        out.begins = carve.take<int64_t>(lines);
        out.ends = carve.take<int64_t>(lines);
      }
      if (by_rows_) {
        out.among_begins = carve.take<int64_t>(lines);
        out.among_ends = carve.take<int64_t>(lines);
        out.values = carve.take<std::byte>(static_cast<size_t>(out.width * out.bytes));
        out.limits = carve.take<TopkLimits>(2);
        out.cut = carve.take<TopkRow>(1);
      }
      if (by_columns_) {
        out.enters = carve.take<int64_t>(static_cast<size_t>(out.width));
        out.leaves = carve.take<int64_t>(static_cast<size_t>(out.width));
      }
      planes_.push_back(out);
      extents_.lines = std::max<int64_t>(extents_.lines, out.lines);
    }
    extents_.keys = std::max(extents_.keys, topk.s_kv);
  }
  params_.stretch = gather_stretch(extents_.keys);

  for (size_t s = 0; s < blocks_.size(); ++s) {
    for (size_t block = 0; block < blocks_[s].size(); ++block) {
      for (size_t head = 0; head < heads; ++head) {
        const auto p = static_cast<size_t>(mask.plane_of[s * heads + head]);
        plane_of_.push_back(first_list[p] + static_cast<int32_t>(block));
      }
    }
  }
}

// The axis of each sequence: batch entries as before, all else one after the other.
void GatheredKeys::add_sequences(const AttentionProblem& problem) {
  problem_.max_s_q = problem_.max_s_kv = 0;
  problem_.sequences.clear();
  const bool packed = by_rows_ || problem.packed;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& from = problem.sequences[s];
    sources_.push_back({from.batch, from.kv_begin, static_cast<int32_t>(from.s_kv),
                        static_cast<int32_t>(sequences_.size()), static_cast<int32_t>(blocks_[s].size()), 0});
    for (const GatherBlock& block : blocks_[s]) {
      sequences_.push_back(
          {packed ? 0 : from.batch, packed ? tokens_ : 0, static_cast<int32_t>(s), static_cast<int32_t>(block.width)});
      problem_.sequences.push_back(
          {sequences_.back().batch, from.q_begin + block.first, block.rows, sequences_.back().begin, block.width});
      problem_.max_s_q = std::max(problem_.max_s_q, block.rows);
      problem_.max_s_kv = std::max(problem_.max_s_kv, block.width);
      tokens_ += block.width;
    }
  }
  params_.width = static_cast<int32_t>(problem_.max_s_kv);
  problem_.packed = packed;
  if (packed) return;
  for (size_t s = 0; s < sequences_.size(); ++s) {  // batch entries have axes of one length, as their tensors do
    sequences_[s].width = params_.width;
    problem_.sequences[s].s_kv = params_.width;
  }
}

void GatheredKeys::add_tables(Carve& carve) {
  const auto append = [this](const auto& values) {
    const size_t at = tables_.size(), bytes = values.size() * sizeof(values[0]);
    tables_.resize(at + (bytes + 15) / 16 * 16);
    if (bytes > 0) std::memcpy(tables_.data() + at, values.data(), bytes);
    return at;
  };
  const size_t planes_at = append(planes_), sources_at = append(sources_), sequences_at = append(sequences_),
               plane_of_at = append(plane_of_);
  auto* const memory = carve.take<std::byte>(tables_.size());
  params_.num_planes = static_cast<int32_t>(planes_.size());
  params_.num_sources = static_cast<int32_t>(sources_.size());
  params_.num_sequences = static_cast<int32_t>(sequences_.size());
  params_.planes = reinterpret_cast<const GatherPlane*>(memory + planes_at);
  params_.sources = reinterpret_cast<const GatherSource*>(memory + sources_at);
  params_.sequences = reinterpret_cast<const GatherSequence*>(memory + sequences_at);
  params_.plane_of = reinterpret_cast<const int32_t*>(memory + plane_of_at);
  params_.selected = selection_.parts(selection_memory_).selections;
  params_.chosen = by_rows_ ? carve.take<TopkPlane>(planes_.size()) : const_cast<TopkPlane*>(params_.selected);
}

void GatheredKeys::add_tensors(const AttentionProblem& problem, Carve& carve) {
  // [b, h, w, d], packed [h, all w, d].
  int64_t tokens = problem_.max_s_kv, batches = params_.num_sequences;
  if (problem_.packed) {
    tokens = tokens_;
    batches = 1;
  }
  const auto gathered = [&](Tensor4& tensor, int64_t dim) {
    const int64_t stride = (dim + 7) / 8 * 8;
    tensor.data = carve.take<uint16_t>(static_cast<size_t>(batches * problem_.h_kv * tokens * stride));
    tensor.stride_s = stride;
    tensor.stride_h = tokens * stride;
    tensor.stride_b = problem_.packed ? 0 : problem_.h_kv * tokens * stride;
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
  if (backward_) {
    params_.dk = add_source(problem.dk);
    params_.dv = add_source(problem.dv);
    params_.gathered_dk = gathered(problem_.dk, problem.d_qk);
    params_.gathered_dv = gathered(problem_.dv, problem.d_v);
  }
  params_.aligned = aligned ? 1 : 0;

  // [sequences, heads, 1, w].
  const auto gathered_bias = [&](Bias& bias, DType dtype) {
    const int64_t sequences = params_.num_sequences, heads = params_.bias_heads, width = problem_.max_s_kv;
    bias.data = carve.take<std::byte>(static_cast<size_t>(sequences * heads * width) * size_of(dtype));
    bias.dtype = dtype;
    const int64_t shape[4] = {sequences, heads, 1, width};
    std::copy(std::begin(shape), std::end(shape), std::begin(bias.shape));
    bias.stride_b = sequences == 1 ? 0 : heads * width;
    bias.stride_h = heads == 1 ? 0 : width;
    bias.stride_q = 0;
    bias.stride_kv = 1;
    bias.group = heads == 1 ? 1 : problem.h_q / heads;
    return view(bias);
  };
  if (problem.bias.defined()) {
    params_.bias = view(problem.bias);
    params_.gathered_bias = gathered_bias(problem_.bias, problem.bias.dtype);
  }
  if (backward_ && problem.dbias.defined()) {
    params_.dbias = view(problem.dbias);
    std::copy(std::begin(problem.dbias.shape), std::end(problem.dbias.shape), std::begin(params_.dbias_shape));
    params_.gathered_dbias = gathered_bias(problem_.dbias, DType::f32);
  }
  params_.num_calls = by_rows_ && !problem.packed ? params_.num_sources : 1;
  if (backward_ && problem.dsinks.defined() && params_.num_calls > 1) {
    params_.dsinks = {problem.dsinks.data, 0, problem.dsinks.stride_h, problem.dsinks.dtype};
    params_.call_dsinks = carve.take<float>(static_cast<size_t>(params_.num_calls * problem.h_q));
  }
}

// What a list's rows see of it.
PlaneMask GatheredKeys::plane_of_list(const GatherPlane& list, int64_t width) const {
  const LeafArgs& topk = topk_[static_cast<size_t>(list.source)];
  if (!by_rows_) return row_band(topk.s_q, width, list.lines, list.begins, list.ends);
  const PlaneMask among = row_band(list.lines, width, list.lines, list.among_begins, list.among_ends);
  PlaneMask rest;
  if (list.begins != nullptr) rest = row_band(list.lines, width, list.lines, list.begins, list.ends);
  const PlaneMask* const within = list.begins != nullptr ? &rest : nullptr;
  if (by_columns_) return columns_of_band(among, within, list.enters, list.leaves);
  return largest_of_band(among, within, static_cast<DType>(topk.type[0]), list.values, topk.ints[1]);
}

// Over sequences that share tensors: all, or the blocks of one batch entry.
void GatheredKeys::add_call(const AttentionProblem& problem, const GatherSource& source, int64_t sequences) {
  const auto first = static_cast<size_t>(source.first);
  const auto heads = static_cast<size_t>(params_.plane_heads);
  KeysCall call{problem_, {}};
  call.mask.heads = params_.plane_heads;
  call.problem.sequences.assign(problem_.sequences.begin() + source.first,
                                problem_.sequences.begin() + source.first + sequences);
  std::map<int32_t, int32_t> planes;  // of the call, by list
  for (size_t i = first * heads; i < (first + static_cast<size_t>(sequences)) * heads; ++i) {
    const auto [found, inserted] = planes.try_emplace(plane_of_[i], static_cast<int32_t>(call.mask.planes.size()));
    if (inserted)
      call.mask.planes.push_back(
          plane_of_list(planes_[static_cast<size_t>(plane_of_[i])], problem_.sequences[i / heads].s_kv));
    call.mask.plane_of.push_back(found->second);
  }
  if (by_rows_ && !problem.packed) {
    AttentionProblem& to = call.problem;
    const int64_t begin = sequences_[first].begin;
    for (Tensor4* const t : {&to.k, &to.v, &to.dk, &to.dv})
      if (t->defined()) t->data = t->at<uint16_t>(0, begin, 0);
    for (Sequence& sequence : to.sequences) sequence.kv_begin -= begin;
    for (Tensor4* const t : {&to.q, &to.out, &to.dout, &to.dq}) *t = entry(*t, source.batch);
    to.lse = entry(to.lse, source.batch);
    to.dlse = entry(to.dlse, source.batch);
    for (Bias* const bias : {&to.bias, &to.dbias}) {
      if (!bias->defined()) continue;
      bias->data = static_cast<std::byte*>(bias->data) +
                   source.first * bias->stride_b * static_cast<int64_t>(size_of(bias->dtype));
      bias->shape[0] = sequences;
    }
    if (params_.call_dsinks != nullptr)
      to.dsinks = {const_cast<float*>(params_.call_dsinks) + static_cast<int64_t>(calls_.size()) * problem.h_q,
                   DType::f32, 0, 1, true};
  }
  calls_.push_back(std::move(call));
}

void GatheredKeys::enqueue_before(cudaStream_t stream) const {
  const PlanBuild build = selection_.parts(selection_memory_);
  PlanBuildShape shape{};
  shape.num_made = selection_.num_made;
  shape.made_units = selection_.made_units;
  shape.made_heaps = selection_.made_heaps;
  shape.selections = selection_.selections;
  upload_plan(selection_.bytes(selection_.header, build.header), build.header, stream);
  if (by_rows_) {
    launch_candidates(build, shape, device_, stream);
    upload_plan(tables_, const_cast<GatherPlane*>(params_.planes), stream);
    launch_chosen(params_, stream);
    TopkParams params{};
    params.planes = params_.chosen;
    params.num_planes = params.num_rows = params_.num_planes;
    launch_topk_select(params, lists_selection(), device_, stream);
  } else {
    launch_selections(build, shape, device_, stream);
    upload_plan(tables_, const_cast<GatherPlane*>(params_.planes), stream);
  }
  launch_gather(params_, extents_, stream);
  if (by_columns_) launch_columns(params_, device_, stream);
}

void GatheredKeys::enqueue_after(cudaStream_t stream) const {
  if (backward_) launch_scatter(params_, extents_, stream);
}

TopkSelectConfig GatheredKeys::lists_selection() const {
  const PlanUpload::Selection& selection = selection_.selections.front();
  return choose_topk_select(selection.dtype, params_.num_planes, selection.keys, device_);
}

std::vector<Fact> GatheredKeys::facts() const {
  std::vector<Fact> facts;
  if (by_rows_) {
    facts = lists_selection().facts();
    for (Fact& fact : facts) fact.name = cat("lists: ", fact.name);
  } else {
    for (const PlanUpload::Selection& selection : selection_.selections) {
      for (Fact& fact : choose_topk_select(selection.dtype, selection.rows, selection.keys, device_).facts())
        facts.push_back(std::move(fact));
    }
  }
  int64_t keys = 0;
  for (const GatherSource& source : sources_) keys += source.s_kv;
  if (by_rows_) {
    facts.push_back({"keys", cat("gathered: lists for blocks of ", problem_.max_s_q, " rows, ", sequences_.size(),
                                 " a head, of ", problem_.max_s_kv, " keys at most, in all sequences together; ",
                                 by_columns_ ? "each key's rows are found once" : "each row selects in its list")});
  } else {
    facts.push_back({"keys", cat("gathered: ", tokens_, " of ", keys, " a head, in all sequences together")});
  }
  return facts;
}

}  // namespace anymask
