// The yardstick of rounding errors: attention as matmul, softmax, matmul in the tensors' own type, the way any
// framework's plain operators compute it. Products accumulate in float32; every result that would be a tensor of its
// own (scores, after the scale, after the softcap, after the bias, probabilities, their gradients) is rounded to the
// type. A backend's error against the reference is measured in multiples of this one's.
//
// It is not a backend to use: float32 arithmetic from the first element to the last, no blocking, no compensation.
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/error.h"
#include "mask/bound_mask.h"
#include "reference/elements.h"
#include "reference/rows.h"

namespace anymask {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

using Panel = std::vector<float>;

Panel read(const Tensor4& t, int64_t batch, int64_t begin, int64_t rows, int64_t head, int64_t dim) {
  const std::vector<double> exact = read_panel(t, batch, begin, rows, head, dim);
  Panel panel(exact.size());
  for (size_t i = 0; i < exact.size(); ++i) panel[i] = static_cast<float>(exact[i]);
  return panel;
}

void write(const Tensor4& t, int64_t batch, int64_t begin, int64_t rows, int64_t head, int64_t dim,
           const float* values) {
  const std::vector<double> wide(values, values + rows * dim);
  write_panel(t, batch, begin, rows, head, dim, wide.data());
}

float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// float32 -> the tensors' type and back: what storing an intermediate tensor does.
float rounded(DType dtype, float x) {
  switch (dtype) {
    case DType::f16:
      return f16_to_f32(f32_to_f16(x));
    case DType::bf16:
      return bf16_to_f32(f32_to_bf16(x));
    default:
      return x;
  }
}

struct Row {
  std::vector<float> capped;       // cap * tanh(x / cap); empty without a softcap
  std::vector<float> probability;  // of each kept key, rounded
  std::vector<float> out;          // [d_v]
  float lse = kMinusInfinity;
  float sink_probability = 0;
};

// S = scale * (Q K^T), capped, biased; P = softmax(S); O = P V: one row. With a `stored_lse`, P = exp(S - lse).
void compute_row(const AttentionProblem& p, int64_t sequence, int64_t head, int64_t i, const Panel& q, const Panel& k,
                 const Panel& v, std::span<const int64_t> kept, const float* stored_lse, Row& row) {
  const Sequence& s = p.sequences[static_cast<size_t>(sequence)];
  const auto scale = static_cast<float>(p.softmax_scale);
  const auto cap = static_cast<float>(p.softcap);
  const auto slope = static_cast<float>(alibi_slope(p, sequence, head));
  const auto r = [&](float x) { return rounded(p.dtype, x); };
  float sink = kMinusInfinity;
  if (p.sinks.defined()) sink = static_cast<float>(load(p.sinks.data, p.sinks.dtype, head * p.sinks.stride_h));

  row.capped.clear();
  row.probability.clear();
  row.out.assign(static_cast<size_t>(p.d_v), 0.0f);
  row.lse = sink;
  row.sink_probability = 0;
  float largest = sink;
  for (const int64_t j : kept) {
    float x = r(r(dot(q.data() + i * p.d_qk, k.data() + j * p.d_qk, p.d_qk)) * scale);
    if (cap > 0) {
      x = r(cap * r(std::tanh(r(x / cap))));
      row.capped.push_back(x);
    }
    if (p.bias.defined())
      x = r(x + static_cast<float>(load(p.bias.data, p.bias.dtype, p.bias.offset(sequence, head, i, j))));
    if (p.alibi.defined()) x = r(x - r(slope * std::fabs(static_cast<float>(i + s.s_kv - s.s_q - j))));
    row.probability.push_back(x);
    largest = std::isnan(x) || x > largest ? x : largest;
  }
  if (largest == kMinusInfinity) {
    for (float& probability : row.probability) probability = 0;
    return;
  }
  float sum = std::exp(sink - largest);
  for (const float x : row.probability) sum += std::exp(x - largest);
  row.lse = largest + std::log(sum);
  if (stored_lse != nullptr) {
    largest = *stored_lse;
    sum = 1;
  }
  row.sink_probability = std::exp(sink - largest) / sum;
  for (size_t n = 0; n < kept.size(); ++n) {
    row.probability[n] = r(std::exp(row.probability[n] - largest) / sum);
    for (int64_t d = 0; d < p.d_v; ++d)
      row.out[static_cast<size_t>(d)] += row.probability[n] * v[static_cast<size_t>(kept[n] * p.d_v + d)];
  }
}

class Naive final : public Backend {
 public:
  const char* name() const override { return "naive"; }
  Device device() const override { return {}; }
  size_t workspace_bytes(const AttentionProblem&, const Mask&, Direction) const override { return 0; }

  Support supports(const AttentionProblem& p, Direction) const override {
    if (p.dtype != DType::f64) return {};
    return {false, "the yardstick of float32, float16 and bfloat16 knows no float64: use backend \"reference\""};
  }

  void forward(const AttentionProblem& p, const Mask& mask, const Launch&) const override {
    const BoundMask bound = anymask::bind(mask, p.sequences, p.h_q, p.h_kv);
    for_each_kv_head(p, false, [&](int64_t sequence, int64_t kv_head, const Going& going) {
      const Sequence& s = p.sequences[static_cast<size_t>(sequence)];
      const Panel k = read(p.k, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_qk);
      const Panel v = read(p.v, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_v);
      KeptKeys keys;
      Row row;
      for (int64_t h = kv_head * p.group(); h < (kv_head + 1) * p.group(); ++h) {
        const PlaneMask& plane = bound.planes[static_cast<size_t>(bound.plane(sequence, h))];
        const Panel q = read(p.q, s.batch, s.q_begin, s.s_q, h, p.d_qk);
        for (int64_t i = 0; i < s.s_q; ++i) {
          going.on();
          compute_row(p, sequence, h, i, q, k, v, keys.of(plane, i), nullptr, row);
          write(p.out, s.batch, s.q_begin + i, 1, h, p.d_v, row.out.data());
          if (p.lse.defined())
            store(p.lse.data, p.lse.dtype,
                  s.batch * p.lse.stride_b + h * p.lse.stride_h + (s.q_begin + i) * p.lse.stride_q, double{row.lse});
        }
      }
    });
  }

  // delta = rowsum(dO O) - dlse; dV = P^T dO; dP = dO V^T; dS = P (dP - delta); dQ = scale dX K; dK = scale dX^T Q.
  // O and lse are the forward's, in the types they are stored in: their rounding is part of any backward's error.
  void backward(const AttentionProblem& p, const Mask& mask, const Launch&) const override {
    const BoundMask bound = anymask::bind(mask, p.sequences, p.h_q, p.h_kv);
    const auto r = [&](float x) { return rounded(p.dtype, x); };
    const auto scale = static_cast<float>(p.softmax_scale);
    const auto cap = static_cast<float>(p.softcap);
    BiasGradient dbias(p);
    std::vector<float> dsinks(p.sequences.size() * static_cast<size_t>(p.h_q));
    for_each_kv_head(p, dbias.wanted(), [&](int64_t sequence, int64_t kv_head, const Going& going) {
      const Sequence& s = p.sequences[static_cast<size_t>(sequence)];
      const Panel k = read(p.k, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_qk);
      const Panel v = read(p.v, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_v);
      Panel dk(k.size()), dv(v.size());
      KeptKeys keys;
      Row row;
      std::vector<float> dp;
      for (int64_t h = kv_head * p.group(); h < (kv_head + 1) * p.group(); ++h) {
        const PlaneMask& plane = bound.planes[static_cast<size_t>(bound.plane(sequence, h))];
        const Panel q = read(p.q, s.batch, s.q_begin, s.s_q, h, p.d_qk);
        const Panel dout = read(p.dout, s.batch, s.q_begin, s.s_q, h, p.d_v);
        const Panel out = read(p.out, s.batch, s.q_begin, s.s_q, h, p.d_v);
        Panel dq(q.size());
        for (int64_t i = 0; i < s.s_q; ++i) {
          going.on();
          const std::span<const int64_t> kept = keys.of(plane, i);
          const auto lse = static_cast<float>(
              load(p.lse.data, p.lse.dtype,
                   s.batch * p.lse.stride_b + h * p.lse.stride_h + (s.q_begin + i) * p.lse.stride_q));
          compute_row(p, sequence, h, i, q, k, v, kept, &lse, row);
          const float* dout_i = dout.data() + i * p.d_v;
          float dlse = 0;
          if (p.dlse.defined())
            dlse = static_cast<float>(
                load(p.dlse.data, p.dlse.dtype,
                     s.batch * p.dlse.stride_b + h * p.dlse.stride_h + (s.q_begin + i) * p.dlse.stride_q));
          dp.clear();
          for (const int64_t j : kept) dp.push_back(r(dot(dout_i, v.data() + j * p.d_v, p.d_v)));
          const float delta = dot(dout_i, out.data() + i * p.d_v, p.d_v) - dlse;
          dsinks[static_cast<size_t>(sequence * p.h_q + h)] -= row.sink_probability * delta;
          for (size_t n = 0; n < kept.size(); ++n) {
            const int64_t j = kept[n];
            for (int64_t d = 0; d < p.d_v; ++d)
              dv[static_cast<size_t>(j * p.d_v + d)] += row.probability[n] * dout_i[d];
            float dx = r(row.probability[n] * (dp[n] - delta));
            if (dbias.wanted()) dbias.add(sequence, h, i, j, double{dx});
            if (cap > 0) dx = r(dx * (1 - (row.capped[n] / cap) * (row.capped[n] / cap)));
            dx = r(dx * scale);
            for (int64_t d = 0; d < p.d_qk; ++d) {
              dq[static_cast<size_t>(i * p.d_qk + d)] += dx * k[static_cast<size_t>(j * p.d_qk + d)];
              dk[static_cast<size_t>(j * p.d_qk + d)] += dx * q[static_cast<size_t>(i * p.d_qk + d)];
            }
          }
        }
        write(p.dq, s.batch, s.q_begin, s.s_q, h, p.d_qk, dq.data());
      }
      write(p.dk, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_qk, dk.data());
      write(p.dv, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_v, dv.data());
    });
    dbias.write();
    if (p.dsinks.defined()) {
      for (int64_t h = 0; h < p.h_q; ++h) {
        float sum = 0;
        for (size_t sequence = 0; sequence < p.sequences.size(); ++sequence)
          sum += dsinks[sequence * static_cast<size_t>(p.h_q) + static_cast<size_t>(h)];
        store(p.dsinks.data, p.dsinks.dtype, h * p.dsinks.stride_h, double{sum});
      }
    }
  }

  std::vector<Fact> explain(const AttentionProblem& p, const Mask&, Direction) const override {
    return {{"kernel", "naive"}, {"arithmetic", cat("float32, intermediate tensors rounded to ", name_of(p.dtype))}};
  }
};

}  // namespace

const Backend& naive_backend() {
  static const Naive backend;
  return backend;
}

}  // namespace anymask
