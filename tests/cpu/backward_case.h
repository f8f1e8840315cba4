// A backward call made from a named case: tensors in any layout with poison around them, run by any backend, judged
// against the reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cases/cases.h"
#include "core/array.h"
#include "core/problem.h"
#include "mask/mask.h"

namespace anymask::test {

// A tensor of up to 4 dimensions inside a larger buffer. All bytes outside its elements are 0xff, which is NaN in every
// float type.
class Buffer {
 public:
  Buffer() = default;
  // strides in elements; `guard` elements before and after.
  Buffer(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t guard = 16)
      : dtype_(dtype), shape_(std::move(shape)), strides_(std::move(strides)), guard_(guard) {
    int64_t last = 0;
    for (size_t i = 0; i < shape_.size(); ++i) last += std::max<int64_t>(shape_[i] - 1, 0) * strides_[i];
    bytes_.assign(static_cast<size_t>((last + 1 + 2 * guard_) * size_of(dtype_)), 0xff);
  }
  static Buffer contiguous(DType dtype, std::vector<int64_t> shape) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
    return Buffer(dtype, std::move(shape), std::move(strides));
  }

  DType dtype() const { return dtype_; }
  void* data() { return bytes_.data() + guard_ * size_of(dtype_); }
  int64_t stride(size_t i) const { return strides_[i]; }
  int64_t size() const {
    int64_t n = 1;
    for (const int64_t s : shape_) n *= s;
    return n;
  }
  // Element offset of flat element i.
  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      at += i % shape_[axis] * strides_[axis];
      i /= shape_[axis];
    }
    return at;
  }
  double get(int64_t i) const { return read(offset(i)); }
  void set(int64_t i, double x) {
    uint8_t* to = bytes_.data() + (guard_ + offset(i)) * size_of(dtype_);
    const auto f = static_cast<float>(x);
    uint16_t half = 0;
    switch (dtype_) {
      case DType::f64:
        std::memcpy(to, &x, 8);
        return;
      case DType::f32:
        std::memcpy(to, &f, 4);
        return;
      case DType::bf16:
        half = f32_to_bf16(f);
        break;
      default:
        half = f32_to_f16(f);
        break;
    }
    std::memcpy(to, &half, 2);
  }
  void fill(std::mt19937_64& rng, double scale) {
    std::normal_distribution<double> normal(0, scale);
    for (int64_t i = 0; i < size(); ++i) set(i, normal(rng));
  }
  std::vector<double> values() const {
    std::vector<double> all(static_cast<size_t>(size()));
    for (int64_t i = 0; i < size(); ++i) all[static_cast<size_t>(i)] = get(i);
    return all;
  }
  // Whether everything outside the elements is as it was.
  bool surroundings_untouched() const {
    std::vector<uint8_t> copy = bytes_;
    for (int64_t i = 0; i < size(); ++i) {
      std::memset(copy.data() + (guard_ + offset(i)) * size_of(dtype_), 0xff, static_cast<size_t>(size_of(dtype_)));
    }
    return std::all_of(copy.begin(), copy.end(), [](uint8_t byte) { return byte == 0xff; });
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  double read(int64_t at) const {
    const uint8_t* from = bytes_.data() + (guard_ + at) * size_of(dtype_);
    double d = 0;
    float f = 0;
    uint16_t half = 0;
    switch (dtype_) {
      case DType::f64:
        std::memcpy(&d, from, 8);
        return d;
      case DType::f32:
        std::memcpy(&f, from, 4);
        return static_cast<double>(f);
      case DType::bf16:
        std::memcpy(&half, from, 2);
        return static_cast<double>(bf16_to_f32(half));
      default:
        std::memcpy(&half, from, 2);
        return static_cast<double>(f16_to_f32(half));
    }
  }

  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_, strides_;
  int64_t guard_ = 0;
  std::vector<uint8_t> bytes_;
};

enum class Layout { token_major, head_major_padded, expanded };

struct CallOptions {
  DType dtype = DType::f32;
  Layout layout = Layout::token_major;
  bool bias_fp32 = true, dbias_fp32 = true;  // else the tensors' type
  uint64_t seed = 1;
};

// The gradients a run left behind.
struct Gradients {
  Buffer dq, dk, dv, dbias, dsinks;
  std::vector<std::pair<std::string, Buffer*>> all() {
    std::vector<std::pair<std::string, Buffer*>> list{{"dq", &dq}, {"dk", &dk}, {"dv", &dv}};
    if (!dbias.bytes().empty()) list.emplace_back("dbias", &dbias);
    if (!dsinks.bytes().empty()) list.emplace_back("dsinks", &dsinks);
    return list;
  }
};

class Call {
 public:
  Call(const cases::AttentionCase& c, const CallOptions& options) : c_(c), options_(options) {
    std::mt19937_64 rng(options.seed);
    AttentionProblem& p = problem;
    p.h_q = c.h_q;
    p.h_kv = c.h_kv;
    p.d_qk = c.d_qk;
    p.d_v = c.d_v;
    p.dtype = options.dtype;
    p.softmax_scale = 1 / std::sqrt(static_cast<double>(c.d_qk));
    p.softcap = c.softcap;
    p.packed = !c.cu_seqlens_q.empty();
    const std::vector<int64_t>& cu_q = c.cu_seqlens_q;
    const std::vector<int64_t>& cu_kv = c.cu_seqlens_kv.empty() ? c.cu_seqlens_q : c.cu_seqlens_kv;
    const int64_t sequences = p.packed ? static_cast<int64_t>(cu_q.size()) - 1 : c.b;
    for (int64_t i = 0; i < sequences; ++i) {
      const auto n = static_cast<size_t>(i);
      if (p.packed) {
        p.sequences.push_back({0, cu_q[n], cu_q[n + 1] - cu_q[n], cu_kv[n], cu_kv[n + 1] - cu_kv[n]});
      } else {
        p.sequences.push_back({i, 0, c.s_q, 0, c.s_kv});
      }
      p.max_s_q = std::max(p.max_s_q, p.sequences.back().s_q);
      p.max_s_kv = std::max(p.max_s_kv, p.sequences.back().s_kv);
    }

    q_ = input(c.s_q, c.h_q, c.d_qk, false);
    k_ = input(c.s_kv, c.h_kv, c.d_qk, options.layout == Layout::expanded);
    v_ = input(c.s_kv, c.h_kv, c.d_v, options.layout == Layout::expanded);
    dout_ = input(c.s_q, c.h_q, c.d_v, false);
    out_ = input(c.s_q, c.h_q, c.d_v, false);
    for (Buffer* buffer : {&q_, &k_, &v_, &dout_}) buffer->fill(rng, 1);
    p.q = tensor(q_);
    p.k = tensor(k_);
    p.v = tensor(v_);
    p.dout = tensor(dout_);
    p.out = tensor(out_);

    lse_ = Buffer::contiguous(DType::f32, {c.b, c.h_q, c.s_q});
    p.lse = row_stat(lse_);
    if (c.dlse) {
      dlse_ = Buffer::contiguous(DType::f32, {c.b, c.h_q, c.s_q});
      dlse_.fill(rng, 1);
      p.dlse = row_stat(dlse_);
    }
    if (!c.bias.empty()) {
      bias_shape_ = {c.bias[0] == 'b' ? sequences : 1,
                     c.bias[1] == 'h'   ? c.h_q
                     : c.bias[1] == 'g' ? c.h_kv
                                        : 1,
                     c.bias[2] == 'q' ? p.max_s_q : 1, p.max_s_kv};
      bias_ = bias_buffer(options.bias_fp32 ? DType::f32 : options.dtype);
      bias_.fill(rng, 1);
      for (int64_t i = 0; i < bias_.size(); i += 11) bias_.set(i, -std::numeric_limits<double>::infinity());
      p.bias = bias(bias_);
    }
    if (c.alibi) {
      alibi_ = Buffer::contiguous(DType::f32, {c.h_q});
      for (int64_t h = 0; h < c.h_q; ++h) alibi_.set(h, std::pow(2.0, -1.0 - static_cast<double>(h)));
      p.alibi = {alibi_.data(), DType::f32, 0, 1, true};
    }
    if (c.sinks) {
      sinks_ = Buffer::contiguous(DType::f32, {c.h_q});
      sinks_.fill(rng, 1);
      p.sinks = {sinks_.data(), DType::f32, 0, 1, true};
    }

    for (const cases::CaseArray& array : c.arrays) {
      TensorView view;
      view.rank = static_cast<int>(array.shape.size());
      int64_t stride = 1;
      for (int axis = view.rank; axis-- > 0;) {
        view.shape[static_cast<size_t>(axis)] = array.shape[static_cast<size_t>(axis)];
        view.stride[static_cast<size_t>(axis)] = stride;
        stride *= view.shape[static_cast<size_t>(axis)];
      }
      const std::vector<int32_t> ints(array.values.begin(), array.values.end());
      const std::vector<uint8_t> bytes(array.values.begin(), array.values.end());
      view.dtype = array.boolean ? DType::boolean : DType::i32;
      view.data = array.boolean ? const_cast<void*>(static_cast<const void*>(bytes.data()))
                                : const_cast<void*>(static_cast<const void*>(ints.data()));
      arrays_.push_back(Array::own(view, array.name));
    }
    mask = Mask::parse(c.mask, arrays_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // out and lse: exact, then rounded.
  void forward() { reference_backend().forward(problem, mask, {}); }

  // Runs a backward into fresh, poisoned outputs; `wide`: fp64 outputs, contiguous (the reference).
  Gradients backward(const std::function<void(const AttentionProblem&, const Mask&)>& run, bool wide = false) {
    const DType dtype = wide ? DType::f64 : options_.dtype;
    AttentionProblem p = problem;
    Gradients g;
    g.dq = output(dtype, c_.s_q, c_.h_q, c_.d_qk);
    g.dk = output(dtype, c_.s_kv, c_.h_kv, c_.d_qk);
    g.dv = output(dtype, c_.s_kv, c_.h_kv, c_.d_v);
    p.dq = tensor(g.dq);
    p.dk = tensor(g.dk);
    p.dv = tensor(g.dv);
    if (p.bias.defined()) {
      g.dbias = bias_buffer(wide ? DType::f64 : options_.dbias_fp32 ? DType::f32 : bias_.dtype());
      p.dbias = bias(g.dbias);
    }
    if (p.sinks.defined()) {
      g.dsinks = Buffer::contiguous(wide ? DType::f64 : DType::f32, {c_.h_q});
      p.dsinks = {g.dsinks.data(), g.dsinks.dtype(), 0, 1, true};
    }
    run(p, mask);
    return g;
  }

  Buffer& q() { return q_; }
  Buffer& k() { return k_; }
  Buffer& v() { return v_; }
  Buffer& dout() { return dout_; }
  Buffer& out() { return out_; }
  Buffer& lse() { return lse_; }
  Buffer& bias_values() { return bias_; }

  AttentionProblem problem;
  Mask mask;

 private:
  // [b, s, h, d] by token or by head, where rows stand 8 elements apart.
  Buffer laid_out(DType dtype, int64_t s, int64_t h, int64_t d) const {
    if (options_.layout == Layout::head_major_padded && !problem.packed) {
      return Buffer(dtype, {c_.b, s, h, d},
                    {std::max<int64_t>(s, 1) * h * (d + 8), d + 8, std::max<int64_t>(s, 1) * (d + 8), 1});
    }
    if (options_.layout == Layout::head_major_padded)
      return Buffer(dtype, {c_.b, s, h, d}, {0, h * (d + 8) + 8, d + 8, 1});
    return Buffer(dtype, {c_.b, s, h, d}, {s * h * d, h * d, d, 1});
  }
  Buffer input(int64_t s, int64_t h, int64_t d, bool expanded) const {
    if (expanded)
      return Buffer(options_.dtype, {c_.b, s, h, d}, {0, d, 0, 1});  // one head for all heads and batch entries
    return laid_out(options_.dtype, s, h, d);
  }
  Buffer output(DType dtype, int64_t s, int64_t h, int64_t d) const { return laid_out(dtype, s, h, d); }
  static Tensor4 tensor(Buffer& buffer) {
    return {buffer.data(), buffer.dtype(), buffer.stride(0), buffer.stride(1), buffer.stride(2), true};
  }
  RowStat row_stat(Buffer& buffer) const {
    return {buffer.data(), DType::f32, problem.packed ? 0 : buffer.stride(0), buffer.stride(1), buffer.stride(2), true};
  }
  Buffer bias_buffer(DType dtype) const {
    const std::vector<int64_t>& n = bias_shape_;
    if (options_.layout != Layout::head_major_padded) return Buffer::contiguous(dtype, n);
    return Buffer(dtype, n, {n[1] * n[2] * n[3] * 2 + 6, n[2] * n[3] * 2, n[3] * 2, 2});
  }
  Bias bias(Buffer& buffer) const {
    Bias b;
    b.data = buffer.data();
    b.dtype = buffer.dtype();
    b.present = true;
    for (size_t i = 0; i < 4; ++i) b.shape[i] = bias_shape_[i];
    b.stride_b = b.shape[0] == 1 ? 0 : buffer.stride(0);
    b.stride_h = b.shape[1] == 1 ? 0 : buffer.stride(1);
    b.stride_q = b.shape[2] == 1 ? 0 : buffer.stride(2);
    b.stride_kv = b.shape[3] == 1 ? 0 : buffer.stride(3);
    b.group = b.shape[1] == c_.h_kv && c_.h_kv != c_.h_q && b.shape[1] != 1 ? c_.h_q / c_.h_kv : 1;
    return b;
  }

  cases::AttentionCase c_;
  CallOptions options_;
  std::vector<int64_t> bias_shape_;
  std::vector<Array> arrays_;
  Buffer q_, k_, v_, dout_, out_, lse_, dlse_, bias_, alibi_, sinks_;
};

inline double largest(const std::vector<double>& x) {
  double max = 0;
  for (const double v : x) max = std::isnan(v) ? v : std::max(max, std::fabs(v));
  return max;
}
// Largest difference; NaN if either holds one.
inline double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double max = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = std::fabs(x[i] - y[i]);
    if (std::isnan(d)) return d;
    max = std::max(max, d);
  }
  return max;
}
// The constant beside twice the naive error: a few last bits of the largest element, and what is left of terms of size
// ten that cancel (a row of one key has gradients of exactly zero).
inline double constant(DType dtype, double largest) {
  const double unit = std::ldexp(1.0, dtype == DType::bf16 ? -8 : dtype == DType::f16 ? -11 : -24);
  return 4 * unit * largest + 1e-5;
}

}  // namespace anymask::test
