#include "api/call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "api/lengths.h"
#include "api/overlap.h"
#include "api/packed_mask.h"
#include "api/view.h"
#include "core/error.h"
#include "dispatch/dispatch.h"

namespace anymask {
namespace {

constexpr int kMaxThreads = 4096;

// Shapes in messages: the numbers expected, as a tensor would print.
std::string shape_text(const std::array<int64_t, 4>& shape, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) text += cat(i ? ", " : "", shape[static_cast<size_t>(i)]);
  return text + "]";
}

// As a person would write it: 0.1, not the 17 digits behind it.
std::string number(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

// "1, 2, 4 or 8"
std::string divisors(int64_t n) {
  std::string text;
  int64_t count = 0;
  for (int64_t d = 1; d <= n && count < 16; ++d) {
    if (n % d != 0) continue;
    ++count;
    text += d == 1 ? "1" : cat(d == n ? " or " : ", ", d);
  }
  return text;
}

// Builds the problem argument by argument. Outputs and inputs are noted on the way, for the aliasing checks at the end.
class Checker {
 public:
  explicit Checker(const CallArguments& arguments) : a_(arguments), op_(arguments.operation()) {}

  Call run() {
    read_options();
    read_qkv();
    read_sequences();
    if (!a_.shapes_only) read_outputs();
    read_scalars();
    read_bias();
    read_per_head();
    if (a_.direction == Direction::backward) read_gradient_options();
    check_aliasing();
    return std::move(call_);
  }

 private:
  struct Named {
    const char* name;
    TensorView view;
    Span span;
  };
  // Most pairs of tensors lie apart, as their spans say.
  static bool share(const Named& a, const TensorView& b, const Span& span_b) {
    return meet(a.span, span_b) && overlap(a.view, b);
  }

  bool backward() const { return a_.direction == Direction::backward; }
  // The reference may write every output in double.
  bool wide() const { return call_.named == &reference_backend(); }

  void read_options() {
    constexpr size_t first_version = offsetof(anymask_options, interrupted);
    if (a_.options != nullptr) options_ = sized(op_, "options", *a_.options, first_version);
    static const Mask full;
    call_.mask = options_.mask == nullptr ? &full : &options_.mask->mask;
    call_.named = named_backend(op_, options_.backend == nullptr ? "" : options_.backend);
    if (options_.num_threads < 0 || options_.num_threads > kMaxThreads)
      fail_invalid(op_, ": num_threads is ", options_.num_threads, "; expected 0 (all this process may use) to ",
                   kMaxThreads);
    problem().num_threads = options_.num_threads;
    problem().deterministic = options_.deterministic != 0;
    problem().packed = options_.cu_seqlens_q != nullptr;
    call_.launch = {options_.stream, options_.workspace, options_.workspace_bytes};
    call_.interrupted = options_.interrupted;
    call_.interrupted_context = options_.interrupted_context;
    if (!problem().packed && options_.cu_seqlens_kv != nullptr)
      fail_invalid(op_, ": cu_seqlens_kv is given without cu_seqlens_q: pass both for packed tensors, or neither");
  }

  AttentionProblem& problem() { return call_.problem; }
  const AttentionProblem& problem() const { return call_.problem; }

  // ------------------------------------------------------------------ tensors

  TensorView view(const char* name, const DLTensor* tensor) {
    const TensorView t =
        view_of(op_, name, required(op_, name, tensor), a_.shapes_only ? Data::may_be_null : Data::needed);
    if (have_device_ && t.device != problem().device)
      fail_invalid(op_, ": ", name, " is on ", t.device.kind == DeviceKind::cpu ? "the CPU" : "another device",
                   " than q; expected all tensors on one device: copy it");
    problem().device = t.device;
    have_device_ = true;
    return t;
  }

  // Rank, floating type, contiguous last dimension of [b, s, h, d] or packed [total, h, d].
  TensorView view4(const char* name, const DLTensor* tensor, const char* batch_form, const char* packed_form) {
    const TensorView t = view(name, tensor);
    const int rank = problem().packed ? 3 : 4;
    if (t.rank != rank)
      fail_invalid(op_, ": ", name, " has shape ", t, "; expected rank ", rank, ", ",
                   problem().packed ? packed_form : batch_form,
                   problem().packed ? ": packed tensors (cu_seqlens_q is given) have no batch axis"
                                    : ": add the missing axis, or give cu_seqlens_q with packed tensors");
    if (!is_floating(t.dtype))
      fail_invalid(op_, ": ", name, " is ", name_of(t.dtype), "; expected float32, float16 or bfloat16: convert it");
    if (t.shape[rank - 1] > 1 && t.numel() > 0 && t.stride[rank - 1] != 1)
      fail_invalid(op_, ": ", name, " has stride ", t.stride[rank - 1],
                   " along its last axis; expected 1: make the head dimension contiguous");
    return t;
  }

  void same_dtype(const char* name, const TensorView& t, bool may_be_wide) {
    if (t.dtype == problem().dtype || (may_be_wide && wide() && t.dtype == DType::f64)) return;
    fail_invalid(op_, ": ", name, " is ", name_of(t.dtype), "; expected ", name_of(problem().dtype),
                 may_be_wide && wide() ? " like q, or float64" : " like q", ": convert it");
  }

  void same_shape(const char* name, const TensorView& t, const std::array<int64_t, 4>& want, const char* meaning) {
    bool same = true;
    for (int i = 0; i < t.rank; ++i) same = same && t.shape[i] == want[static_cast<size_t>(i)];
    if (!same)
      fail_invalid(op_, ": ", name, " has shape ", t, "; expected ", shape_text(want, t.rank), ", ", meaning,
                   ": give it that shape");
  }

  Tensor4 tensor4(const TensorView& t) const {
    Tensor4 r;
    r.data = t.data;
    r.dtype = t.dtype;
    const int s = problem().packed ? 0 : 1;
    r.stride_b = problem().packed ? 0 : t.stride[0];
    r.stride_s = t.stride[s];
    r.stride_h = t.stride[s + 1];
    r.present = true;
    return r;
  }

  void input(const char* name, const TensorView& t) { inputs_[num_inputs_++] = {name, t, span_of(t)}; }
  void output(const char* name, const TensorView& t) {
    for (int i = 0; i < t.rank; ++i)
      if (t.stride[i] < 0)
        fail_invalid(op_, ": ", name, " has stride ", t.stride[i], " along axis ", i,
                     "; outputs have positive strides: give a view in memory order");
    if (overlaps_itself(t))
      fail_invalid(op_, ": ", name, " has shape ", t,
                   " with strides under which its elements overlap; outputs have an element of their own "
                   "for each index: give memory that is not expanded");
    outputs_[num_outputs_++] = {name, t, span_of(t)};
  }

  void read_qkv() {
    const TensorView q = view4("q", a_.q, "[b, s_q, h_q, d_qk]", "[total_q, h_q, d_qk]");
    const TensorView k = view4("k", a_.k, "[b, s_kv, h_kv, d_qk]", "[total_kv, h_kv, d_qk]");
    const TensorView v = view4("v", a_.v, "[b, s_kv, h_kv, d_v]", "[total_kv, h_kv, d_v]");
    const int s = problem().packed ? 0 : 1;  // the token axis; heads and dims follow
    problem().dtype = q.dtype;
    same_dtype("k", k, false);
    same_dtype("v", v, false);

    problem().h_q = q.shape[s + 1];
    problem().h_kv = k.shape[s + 1];
    if (problem().h_q < 1) fail_invalid(op_, ": q has shape ", q, "; expected at least one head: check axis ", s + 1);
    if (problem().h_kv < 1 || problem().h_q % problem().h_kv != 0)
      fail_invalid(op_, ": k has shape ", k, "; h_kv must divide h_q = ", problem().h_q, ": use ",
                   divisors(problem().h_q));
    if (v.shape[s + 1] != problem().h_kv)
      fail_invalid(op_, ": v has shape ", v, "; expected as many heads as k, ", problem().h_kv,
                   ": use the same kv heads in k and v");

    problem().d_qk = q.shape[s + 2];
    problem().d_v = v.shape[s + 2];
    head_dim("q", q, problem().d_qk);
    if (k.shape[s + 2] != problem().d_qk)
      fail_invalid(op_, ": k has shape ", k, "; expected head dimension ", problem().d_qk,
                   " like q: q . k needs equal dimensions");
    head_dim("v", v, problem().d_v);

    total_q_ = q.shape[s];
    total_kv_ = k.shape[s];
    if (v.shape[s] != total_kv_)
      fail_invalid(op_, ": v has shape ", v, "; expected ", total_kv_,
                   " keys like k: k and v describe the same tokens");
    if (!problem().packed) {
      batch_ = q.shape[0];
      if (k.shape[0] != batch_)
        fail_invalid(op_, ": k has shape ", k, "; expected batch ", batch_, " like q: expand or slice it");
      if (v.shape[0] != batch_)
        fail_invalid(op_, ": v has shape ", v, "; expected batch ", batch_, " like q: expand or slice it");
    }
    problem().q = tensor4(q);
    problem().k = tensor4(k);
    problem().v = tensor4(v);
    input("q", q);
    input("k", k);
    input("v", v);
  }

  void head_dim(const char* name, const TensorView& t, int64_t dim) {
    if (dim >= 8 && dim <= 256 && dim % 8 == 0) return;
    fail_invalid(op_, ": ", name, " has shape ", t,
                 "; expected a head dimension that is a multiple of 8 from 8 to 256: ",
                 dim > 256 ? std::string("use more, smaller heads")
                           : cat("pad with zeros to ", std::max<int64_t>(8, (dim + 7) / 8 * 8)));
  }

  void read_sequences() {
    if (problem().packed) {
      const TensorView cu_q = view_of(op_, "cu_seqlens_q", *options_.cu_seqlens_q);
      const TensorView cu_kv =
          options_.cu_seqlens_kv == nullptr ? TensorView{} : view_of(op_, "cu_seqlens_kv", *options_.cu_seqlens_kv);
      if (cu_q.device.kind != DeviceKind::cpu && cu_q.device == problem().device) {
        read_offsets_on_device(cu_q, cu_kv);
        return;
      }
      problem().sequences = packed_sequences(op_, cu_q, cu_kv, total_q_, total_kv_);
      input("cu_seqlens_q", cu_q);
      if (cu_kv.defined()) input("cu_seqlens_kv", cu_kv);
      batch_ = static_cast<int64_t>(problem().sequences.size());
      for (const Sequence& s : problem().sequences) {
        problem().max_s_q = std::max(problem().max_s_q, s.s_q);
        problem().max_s_kv = std::max(problem().max_s_kv, s.s_kv);
      }
    } else {
      check_tokens(op_, "q", total_q_);
      check_tokens(op_, "k", total_kv_);
      check_sequences(op_, batch_);
      problem().sequences.resize(static_cast<size_t>(batch_));
      for (int64_t i = 0; i < batch_; ++i) problem().sequences[static_cast<size_t>(i)] = {i, 0, total_q_, 0, total_kv_};
      problem().max_s_q = total_q_;
      problem().max_s_kv = total_kv_;
    }
    check_counts(op_, problem().sequences, problem().h_q);
  }

  // Lengths the host does not know: one sequence of documents, planned on the device.
  void read_offsets_on_device(const TensorView& cu_q, const TensorView& cu_kv) {
    const bool own_kv = cu_kv.defined() && (cu_kv.data != cu_q.data || cu_kv.dtype != cu_q.dtype ||
                                            cu_kv.shape != cu_q.shape || cu_kv.stride != cu_q.stride);
    if (own_kv && cu_kv.device != cu_q.device)
      fail_invalid(op_, ": cu_seqlens_kv is not where cu_seqlens_q is, on CUDA device ", cu_q.device.index,
                   "; expected both in one place: copy one of them");
    if (own_kv && cu_kv.shape[0] != cu_q.shape[0])
      fail_invalid(op_, ": cu_seqlens_kv has ", cu_kv.shape[0], " offsets and cu_seqlens_q has ", cu_q.shape[0],
                   "; expected as many: both cut the same sequences");
    if (!own_kv && total_q_ != total_kv_)
      fail_invalid(op_, ": k has ", total_kv_, " tokens and q has ", total_q_, ", but cu_seqlens_kv is ",
                   cu_kv.defined() ? "cu_seqlens_q" : "not given", ": pass its own where they differ");
    const auto refuse = [this](const char* what) {
      fail_unsupported(op_, ": ", what,
                       " is given and cu_seqlens_q is on the device, where the lengths it is counted by ",
                       "are not known to the host: pass cu_seqlens on the CPU");
    };
    if (options_.bias != nullptr) refuse("bias");
    if (options_.alibi_slopes != nullptr && own_kv) refuse("alibi_slopes");
    check_tokens(op_, "q", total_q_);
    check_tokens(op_, "k", total_kv_);
    input("cu_seqlens_q", cu_q);
    if (own_kv) input("cu_seqlens_kv", cu_kv);
    call_.packed = std::make_shared<const Mask>(packed_mask(op_, *call_.mask, cu_q, cu_kv, own_kv));
    call_.mask = call_.packed.get();
    batch_ = 1;
    problem().sequences = {{0, 0, total_q_, 0, total_kv_}};
    problem().max_s_q = total_q_;
    problem().max_s_kv = total_kv_;
    check_counts(op_, problem().sequences, problem().h_q);
  }

  std::array<int64_t, 4> shape4(int64_t tokens, int64_t heads, int64_t dim) const {
    if (problem().packed) return {tokens, heads, dim, 0};
    return {batch_, tokens, heads, dim};
  }

  RowStat row_stat(const char* name, const DLTensor* tensor, bool written) {
    const TensorView t = view(name, tensor);
    const int rank = problem().packed ? 2 : 3;
    if (t.rank != rank)
      fail_invalid(op_, ": ", name, " has shape ", t, "; expected rank ", rank, ", ",
                   problem().packed ? "[h_q, total_q]" : "[b, h_q, s_q]", ": give it that shape");
    if (t.dtype != DType::f32 && !(wide() && t.dtype == DType::f64))
      fail_invalid(op_, ": ", name, " is ", name_of(t.dtype), "; expected float32", wide() ? " or float64" : "",
                   ": convert it");
    std::array<int64_t, 4> want = {batch_, problem().h_q, total_q_, 0};
    if (problem().packed) want = {problem().h_q, total_q_, 0, 0};
    same_shape(name, t, want, problem().packed ? "[h_q, total_q]" : "[b, h_q, s_q]");
    if (written) {
      output(name, t);
    } else {
      input(name, t);
    }
    RowStat r;
    r.data = t.data;
    r.dtype = t.dtype;
    const int h = problem().packed ? 0 : 1;
    r.stride_b = problem().packed ? 0 : t.stride[0];
    r.stride_h = t.stride[h];
    r.stride_q = t.stride[h + 1];
    r.present = true;
    return r;
  }

  // A tensor of q's type and the given shape that the call reads or writes.
  Tensor4 result(const char* name, const DLTensor* tensor, const std::array<int64_t, 4>& shape, const char* batch_form,
                 const char* packed_form, bool written) {
    const TensorView t = view4(name, tensor, batch_form, packed_form);
    same_dtype(name, t, true);
    same_shape(name, t, shape, problem().packed ? packed_form : batch_form);
    if (written) {
      output(name, t);
    } else {
      input(name, t);
    }
    return tensor4(t);
  }

  void read_outputs() {
    AttentionProblem& p = problem();
    const auto like_q = shape4(total_q_, p.h_q, p.d_qk), like_k = shape4(total_kv_, p.h_kv, p.d_qk);
    const auto like_v = shape4(total_kv_, p.h_kv, p.d_v), like_out = shape4(total_q_, p.h_q, p.d_v);
    p.out = result("out", a_.out, like_out, "[b, s_q, h_q, d_v]", "[total_q, h_q, d_v]", !backward());
    if (!backward()) {
      if (a_.lse != nullptr) p.lse = row_stat("lse", a_.lse, true);
      return;
    }
    p.lse = row_stat("lse", a_.lse, false);
    p.dout = result("dout", a_.dout, like_out, "[b, s_q, h_q, d_v]", "[total_q, h_q, d_v]", false);
    p.dq = result("dq", a_.dq, like_q, "[b, s_q, h_q, d_qk]", "[total_q, h_q, d_qk]", true);
    p.dk = result("dk", a_.dk, like_k, "[b, s_kv, h_kv, d_qk]", "[total_kv, h_kv, d_qk]", true);
    p.dv = result("dv", a_.dv, like_v, "[b, s_kv, h_kv, d_v]", "[total_kv, h_kv, d_v]", true);
  }

  // ------------------------------------------------------------------ options

  void read_scalars() {
    constexpr double kLargest = std::numeric_limits<float>::max();
    double& scale = problem().softmax_scale;
    scale = options_.softmax_scale == nullptr ? 1 / std::sqrt(static_cast<double>(problem().d_qk))
                                              : *options_.softmax_scale;
    if (!(std::fabs(scale) <= kLargest))
      fail_invalid(op_, ": softmax_scale is ", number(scale),
                   "; expected a finite float32: leave it NULL for 1 / sqrt(d_qk)");
    problem().softcap = options_.softcap;
    if (!(problem().softcap >= 0 && problem().softcap <= kLargest))
      fail_invalid(op_, ": softcap is ", number(problem().softcap),
                   "; expected 0 (none) or a positive finite float32: use 0 for none");
    // A cap that float32 turns into 0 or a subnormal would divide by nothing.
    if (problem().softcap > 0 && problem().softcap < double{std::numeric_limits<float>::min()})
      fail_invalid(op_, ": softcap is ", number(problem().softcap),
                   ", which float32 cannot hold; expected 0 or at least 1.2e-38: use 0 for none");
  }

  // [b | 1, h_q | h_kv | 1, s_q | 1, s_kv], or [s_q | 1, s_kv] for all batches and heads.
  Bias bias_of(const char* name, const DLTensor* tensor, bool written) {
    const AttentionProblem& p = problem();
    const TensorView t = view(name, tensor);
    if (!is_floating(t.dtype))
      fail_invalid(op_, ": ", name, " is ", name_of(t.dtype), "; expected a floating type: convert it");
    if (t.rank != 4 && t.rank != 2)
      fail_invalid(op_, ": ", name, " has shape ", t, "; expected rank 4, ", bias_form(),
                   ", or rank 2: add axes of size 1");
    const int skip = 4 - t.rank;
    Bias bias;
    std::array<int64_t, 4> stride = {};
    for (int i = 0; i < 4; ++i) {
      bias.shape[i] = i < skip ? 1 : t.shape[i - skip];
      stride[static_cast<size_t>(i)] = i < skip ? 0 : t.stride[i - skip];
    }
    const auto& s = bias.shape;
    const bool heads = s[1] == 1 || s[1] == p.h_q || s[1] == p.h_kv;
    if ((s[0] != 1 && s[0] != batch_) || !heads || (s[2] != 1 && s[2] != p.max_s_q) || s[3] != p.max_s_kv)
      fail_invalid(op_, ": ", name, " has shape ", t, "; expected ", bias_form(), " with ", p.packed ? "n" : "b", " = ",
                   batch_, ", h_q = ", p.h_q, ", h_kv = ", p.h_kv, p.packed ? ", max_s_q = " : ", s_q = ", p.max_s_q,
                   p.packed ? ", max_s_kv = " : ", s_kv = ", p.max_s_kv, ": broadcast with axes of size 1");
    bias.data = t.data;
    bias.dtype = t.dtype;
    bias.stride_b = stride[0];
    bias.stride_h = stride[1];
    bias.stride_q = stride[2];
    bias.stride_kv = stride[3];
    bias.group = s[1] == p.h_q || s[1] == 1 ? 1 : p.group();
    bias.present = true;
    if (written) {
      output(name, t);
    } else {
      input(name, t);
    }
    return bias;
  }
  const char* bias_form() const {
    return problem().packed ? "[n | 1, h_q | h_kv | 1, max_s_q | 1, max_s_kv]"
                            : "[b | 1, h_q | h_kv | 1, s_q | 1, s_kv]";
  }

  void read_bias() {
    if (options_.bias != nullptr) problem().bias = bias_of("bias", options_.bias, false);
  }

  PerHead per_head(const char* name, const DLTensor* tensor, bool may_have_batch, bool written) {
    const TensorView t = view(name, tensor);
    const char* form = may_have_batch ? "[h_q] or [b, h_q]" : "[h_q]";
    if (!is_floating(t.dtype))
      fail_invalid(op_, ": ", name, " is ", name_of(t.dtype), "; expected a floating type: convert it");
    const bool flat = t.rank == 1 && t.shape[0] == problem().h_q;
    const bool batched =
        may_have_batch && t.rank == 2 && (t.shape[0] == batch_ || t.shape[0] == 1) && t.shape[1] == problem().h_q;
    if (!flat && !batched)
      fail_invalid(op_, ": ", name, " has shape ", t, "; expected ", form, " with ",
                   may_have_batch ? cat("b = ", batch_, ", ") : "", "h_q = ", problem().h_q,
                   ": one number a query head");
    if (written) {
      output(name, t);
    } else {
      input(name, t);
    }
    PerHead r;
    r.data = t.data;
    r.dtype = t.dtype;
    r.stride_b = flat ? 0 : t.stride[0];
    r.stride_h = t.stride[t.rank - 1];
    r.present = true;
    return r;
  }

  void read_per_head() {
    if (options_.alibi_slopes != nullptr)
      problem().alibi = per_head("alibi_slopes", options_.alibi_slopes, true, false);
    if (options_.sinks != nullptr) problem().sinks = per_head("sinks", options_.sinks, false, false);
  }

  void gradient_dtype(const char* name, DType dtype, const char* of, DType like) {
    if (dtype == DType::f32 || dtype == like || (wide() && dtype == DType::f64)) return;
    fail_invalid(op_, ": ", name, " is ", name_of(dtype), "; expected float32, or ", name_of(like), " like ", of,
                 ": convert it");
  }

  void read_gradient_options() {
    AttentionProblem& p = problem();
    if (options_.dlse != nullptr) p.dlse = row_stat("dlse", options_.dlse, false);
    if (options_.dbias != nullptr) {
      if (!p.bias.defined())
        fail_invalid(op_, ": dbias is given without bias: pass the bias of the forward, or no dbias");
      p.dbias = bias_of("dbias", options_.dbias, true);
      for (size_t i = 0; i < 4; ++i)
        if (p.dbias.shape[i] != p.bias.shape[i])
          fail_invalid(op_, ": dbias has shape ", shape_text(std::to_array(p.dbias.shape), 4),
                       "; expected the bias's shape, ", shape_text(std::to_array(p.bias.shape), 4),
                       ": broadcast axes are summed");
      gradient_dtype("dbias", p.dbias.dtype, "bias", p.bias.dtype);
    }
    if (options_.dsinks != nullptr) {
      if (!p.sinks.defined())
        fail_invalid(op_, ": dsinks is given without sinks: pass the sinks of the forward, or no dsinks");
      p.dsinks = per_head("dsinks", options_.dsinks, false, true);
      gradient_dtype("dsinks", p.dsinks.dtype, "sinks", p.sinks.dtype);
    }
  }

  // Outputs are written while inputs are still read, in an order of the backend's choosing. Arrays that the mask only
  // borrows are inputs too.
  void check_aliasing() const {
    if (a_.shapes_only) return;
    for (const Array& array : call_.mask->program().arrays) {
      if (array.owned()) continue;
      const Span span = span_of(array.view);
      for (size_t i = 0; i < num_outputs_; ++i)
        if (share(*outputs_[i], array.view, span))
          fail_invalid(op_, ": ", outputs_[i]->name, " shares memory with an array of the mask, ",
                       array.name.empty() ? "which has no name" : "@" + array.name,
                       "; outputs are written while inputs are read: give ", outputs_[i]->name, " memory of its own");
    }
    for (size_t i = 0; i < num_outputs_; ++i) {
      const Named& output = *outputs_[i];
      for (size_t j = 0; j < num_inputs_; ++j)
        if (share(output, inputs_[j]->view, inputs_[j]->span))
          fail_invalid(op_, ": ", output.name, " shares memory with ", inputs_[j]->name,
                       "; outputs are written while inputs are read: give ", output.name, " memory of its own");
      for (size_t j = 0; j < i; ++j)
        if (share(output, outputs_[j]->view, outputs_[j]->span))
          fail_invalid(op_, ": ", output.name, " shares memory with ", outputs_[j]->name,
                       "; each output needs memory of its own: give it some");
    }
  }

  const CallArguments& a_;
  const char* op_;
  anymask_options options_ = {};
  Call call_;
  bool have_device_ = false;
  int64_t batch_ = 0, total_q_ = 0, total_kv_ = 0;  // batch entries or packed sequences; tokens along the token axis
  // Those that are not there cost nothing.
  std::array<std::optional<Named>, 12> inputs_;
  std::array<std::optional<Named>, 5> outputs_;
  size_t num_inputs_ = 0, num_outputs_ = 0;
};

}  // namespace

Call check_call(const CallArguments& arguments) { return Checker(arguments).run(); }

}  // namespace anymask
