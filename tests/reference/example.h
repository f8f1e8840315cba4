// A small attention call in double, with every option at hand, for tests of the reference.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/problem.h"
#include "mask/mask.h"

namespace anymask::test {

struct Shape {
  int64_t b = 1, s_q = 3, s_kv = 3, h_q = 1, h_kv = 1, d_qk = 8, d_v = 8;
  std::vector<int64_t> cu_q = {}, cu_kv = {};  // packed: b is 1, s_q and s_kv the totals
  std::vector<int64_t> bias = {};              // [b | 1, h | 1, s_q | 1, s_kv]; empty: none
  bool alibi = false, sinks = false, dlse = false;
  double softcap = 0, scale = 0.3;
  std::string mask = "full";
};

// Owns contiguous double tensors of the shape and describes them as a problem. Outputs start as NaN.
class Example {
 public:
  explicit Example(const Shape& shape, uint64_t seed = 1) : shape_(shape), mask(Mask::parse(shape.mask)) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& x, int64_t n) {
      x.resize(static_cast<size_t>(n));
      for (double& value : x) value = normal(rng);
    };
    const auto empty = [](std::vector<double>& x, int64_t n) {
      x.assign(static_cast<size_t>(n), std::numeric_limits<double>::quiet_NaN());
    };
    const Shape& s = shape_;
    fill(q, s.b * s.s_q * s.h_q * s.d_qk);
    fill(k, s.b * s.s_kv * s.h_kv * s.d_qk);
    fill(v, s.b * s.s_kv * s.h_kv * s.d_v);
    fill(dout, s.b * s.s_q * s.h_q * s.d_v);
    empty(out, s.b * s.s_q * s.h_q * s.d_v);
    empty(lse, s.b * s.h_q * s.s_q);
    empty(dq, static_cast<int64_t>(q.size()));
    empty(dk, static_cast<int64_t>(k.size()));
    empty(dv, static_cast<int64_t>(v.size()));
    if (!s.bias.empty()) {
      fill(bias, s.bias[0] * s.bias[1] * s.bias[2] * s.bias[3]);
      empty(dbias, static_cast<int64_t>(bias.size()));
    }
    const auto sequences = static_cast<int64_t>(s.cu_q.empty() ? static_cast<size_t>(s.b) : s.cu_q.size() - 1);
    if (s.alibi) fill(alibi, sequences * s.h_q);
    if (s.sinks) {
      fill(sinks, s.h_q);
      empty(dsinks, s.h_q);
    }
    if (s.dlse) fill(dlse, static_cast<int64_t>(lse.size()));
    describe();
  }
  Example(const Example&) = delete;
  Example& operator=(const Example&) = delete;

  void forward() { reference_backend().forward(problem, mask, {}); }
  void backward() { reference_backend().backward(problem, mask, {}); }

  // sum(dout * out) + sum(dlse * lse), rows of lse = -inf left out: what the gradients are of.
  double loss() {
    forward();
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += dout[i] * out[i];
    for (size_t i = 0; i < dlse.size(); ++i)
      if (lse[i] > -std::numeric_limits<double>::infinity()) sum += dlse[i] * lse[i];
    return sum;
  }

 private:
  Shape shape_;

 public:
  Mask mask;
  AttentionProblem problem;
  std::vector<double> q, k, v, out, lse, bias, alibi, sinks;
  std::vector<double> dout, dlse, dq, dk, dv, dbias, dsinks;

 private:
  Tensor4 tensor(std::vector<double>& x, int64_t tokens, int64_t heads, int64_t dim) const {
    Tensor4 t;
    t.data = x.data();
    t.dtype = DType::f64;
    t.stride_b = shape_.cu_q.empty() ? tokens * heads * dim : 0;
    t.stride_s = heads * dim;
    t.stride_h = dim;
    t.present = true;
    return t;
  }
  RowStat row_stat(std::vector<double>& x) const {
    RowStat r;
    r.data = x.data();
    r.dtype = DType::f64;
    r.stride_b = shape_.cu_q.empty() ? shape_.h_q * shape_.s_q : 0;
    r.stride_h = shape_.s_q;
    r.present = !x.empty();
    return r;
  }
  Bias bias_of(std::vector<double>& x) const {
    Bias b;
    if (shape_.bias.empty()) return b;
    b.data = x.data();
    b.dtype = DType::f64;
    int64_t stride = 1;
    int64_t* strides[4] = {&b.stride_b, &b.stride_h, &b.stride_q, &b.stride_kv};
    for (size_t i = 4; i-- > 0;) {
      b.shape[i] = shape_.bias[i];
      *strides[i] = shape_.bias[i] == 1 ? 0 : stride;
      stride *= shape_.bias[i];
    }
    b.group = b.shape[1] == shape_.h_q || b.shape[1] == 1 ? 1 : shape_.h_q / shape_.h_kv;
    b.present = true;
    return b;
  }
  PerHead per_head(std::vector<double>& x, bool batched) const {
    PerHead h;
    h.data = x.data();
    h.dtype = DType::f64;
    h.stride_b = batched ? shape_.h_q : 0;
    h.present = !x.empty();
    return h;
  }
  void describe() {
    const Shape& s = shape_;
    AttentionProblem& p = problem;
    p.h_q = s.h_q, p.h_kv = s.h_kv, p.d_qk = s.d_qk, p.d_v = s.d_v;
    p.packed = !s.cu_q.empty();
    if (p.packed) {
      for (size_t i = 0; i + 1 < s.cu_q.size(); ++i)
        p.sequences.push_back({0, s.cu_q[i], s.cu_q[i + 1] - s.cu_q[i], s.cu_kv[i], s.cu_kv[i + 1] - s.cu_kv[i]});
    } else {
      for (int64_t i = 0; i < s.b; ++i) p.sequences.push_back({i, 0, s.s_q, 0, s.s_kv});
    }
    for (const Sequence& x : p.sequences) {
      p.max_s_q = std::max(p.max_s_q, x.s_q);
      p.max_s_kv = std::max(p.max_s_kv, x.s_kv);
    }
    p.softmax_scale = s.scale;
    p.softcap = s.softcap;
    p.dtype = DType::f64;
    p.q = tensor(q, s.s_q, s.h_q, s.d_qk), p.dq = tensor(dq, s.s_q, s.h_q, s.d_qk);
    p.k = tensor(k, s.s_kv, s.h_kv, s.d_qk), p.dk = tensor(dk, s.s_kv, s.h_kv, s.d_qk);
    p.v = tensor(v, s.s_kv, s.h_kv, s.d_v), p.dv = tensor(dv, s.s_kv, s.h_kv, s.d_v);
    p.out = tensor(out, s.s_q, s.h_q, s.d_v), p.dout = tensor(dout, s.s_q, s.h_q, s.d_v);
    p.lse = row_stat(lse), p.dlse = row_stat(dlse);
    p.bias = bias_of(bias), p.dbias = bias_of(dbias);
    p.alibi = per_head(alibi, true);
    p.sinks = per_head(sinks, false), p.dsinks = per_head(dsinks, false);
  }
};

}  // namespace anymask::test
