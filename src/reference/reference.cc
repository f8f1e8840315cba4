// The specification in code: exact softmax attention and its gradients in double precision, one kept pair after
// another.
//
// For query row i of a head, over its kept keys j, with p = i + s_kv - s_q:
//
//   x_ij   = scale * (q_i . k_j)
//   s_ij   = cap * tanh(x_ij / cap)                    (x_ij without a softcap)
//            + bias_ij - slope * |p - j|
//   lse_i  = log(sum_j exp(s_ij) + exp(sink))          (no sink term without sinks)
//   P_ij   = exp(s_ij - lse_i)
//   out_i  = sum_j P_ij v_j
//
// and for L = sum(dout * out) + sum(dlse * lse), with delta_i = dout_i . out_i:
//
//   dv_j   = sum_i P_ij dout_i
//   ds_ij  = P_ij (dout_i . v_j - delta_i + dlse_i)    = dL/ds_ij = dbias_ij
//   dsink  = sum_i exp(sink - lse_i) (dlse_i - delta_i)
//   dx_ij  = ds_ij (1 - tanh(x_ij / cap)^2)            (ds_ij without a softcap)
//   dq_i   = scale sum_j dx_ij k_j
//   dk_j   = scale sum_i dx_ij q_i
//
// A row that keeps nothing (or only keys of score -inf) has out = 0 and lse = -inf, or lse = sink with a sink. Its
// gradients are 0: its dq, and what it gives to dk, dv and dbias. A sink belongs to the head, not to the row: where the
// row's lse is the sink, a gradient that flows in through lse is the sink's (dsink += dlse), as the formula above and
// differences of the forward say; through out nothing comes, for out is 0 whatever the sink. The backward recomputes
// out and lse in double rather than trust the rounded ones it is given: its gradients are those of the exact function.
// Outputs are rounded once, to the type of the tensor they go to.
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "mask/bound_mask.h"
#include "reference/elements.h"
#include "reference/rows.h"

namespace anymask {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// One query row of one head, its softmax done.
struct Row {
  std::vector<double> tanh;         // tanh(x / cap) of each kept key; empty without a softcap
  std::vector<double> probability;  // P of each kept key
  std::vector<double> out;          // [d_v]
  double lse = kMinusInfinity;
  double sink_probability = 0;  // exp(sink - lse)
};

// Everything a (sequence, q head) reads.
class Head {
 public:
  Head(const AttentionProblem& problem, int64_t sequence, int64_t head, const std::vector<double>& k,
       const std::vector<double>& v)
      : p_(problem),
        s_(problem.sequences[static_cast<size_t>(sequence)]),
        sequence_(sequence),
        head_(head),
        k_(k),
        v_(v),
        q_(read_panel(problem.q, s_.batch, s_.q_begin, s_.s_q, head, problem.d_qk)),
        slope_(alibi_slope(problem, sequence, head)) {
    if (p_.sinks.defined()) sink_ = load(p_.sinks.data, p_.sinks.dtype, head * p_.sinks.stride_h);
  }

  const double* q_row(int64_t i) const { return q_.data() + i * p_.d_qk; }
  const double* k_row(int64_t j) const { return k_.data() + j * p_.d_qk; }
  const double* v_row(int64_t j) const { return v_.data() + j * p_.d_v; }

  void softmax(int64_t i, std::span<const int64_t> kept, Row& row) const {
    row.tanh.clear();
    row.probability.clear();
    row.out.assign(static_cast<size_t>(p_.d_v), 0.0);
    row.lse = sink_;
    row.sink_probability = 0;

    // s, and its largest: the sum below is taken relative to it, so that nothing overflows.
    double largest = sink_;
    for (const int64_t j : kept) {
      double s = p_.softmax_scale * dot(q_row(i), k_row(j), p_.d_qk);
      if (p_.softcap > 0) {
        row.tanh.push_back(std::tanh(s / p_.softcap));
        s = p_.softcap * row.tanh.back();
      }
      if (p_.bias.defined()) s += load(p_.bias.data, p_.bias.dtype, p_.bias.offset(sequence_, head_, i, j));
      if (p_.alibi.defined()) s -= slope_ * std::fabs(static_cast<double>(i + s_.s_kv - s_.s_q - j));
      row.probability.push_back(s);
      largest = std::isnan(s) || s > largest ? s : largest;
    }
    if (largest == kMinusInfinity) {  // nothing kept
      for (double& probability : row.probability) probability = 0;
      return;
    }

    double sum = std::exp(sink_ - largest);
    for (const double s : row.probability) sum += std::exp(s - largest);
    row.lse = largest + std::log(sum);
    row.sink_probability = std::exp(sink_ - largest) / sum;
    for (size_t n = 0; n < kept.size(); ++n) {
      row.probability[n] = std::exp(row.probability[n] - largest) / sum;  // exp(s - lse), exact for large scores too
      for (int64_t d = 0; d < p_.d_v; ++d) row.out[static_cast<size_t>(d)] += row.probability[n] * v_row(kept[n])[d];
    }
  }

 private:
  const AttentionProblem& p_;
  const Sequence& s_;
  int64_t sequence_, head_;
  const std::vector<double>&k_, &v_;  // [s_kv, d_qk], [s_kv, d_v]
  std::vector<double> q_;             // [s_q, d_qk]
  double slope_ = 0, sink_ = kMinusInfinity;
};

class Reference final : public Backend {
 public:
  const char* name() const override { return "reference"; }
  Device device() const override { return {}; }
  Support supports(const AttentionProblem&, Direction) const override { return {}; }
  size_t workspace_bytes(const AttentionProblem&, const Mask&, Direction) const override { return 0; }

  void forward(const AttentionProblem& p, const Mask& mask, const Launch&) const override {
    const BoundMask bound = anymask::bind(mask, p.sequences, p.h_q, p.h_kv);
    for_each_kv_head(p, false, [&](int64_t sequence, int64_t kv_head, const Going& going) {
      const Sequence& s = p.sequences[static_cast<size_t>(sequence)];
      const std::vector<double> k = read_panel(p.k, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_qk);
      const std::vector<double> v = read_panel(p.v, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_v);
      KeptKeys keys;
      Row row;
      for (int64_t h = kv_head * p.group(); h < (kv_head + 1) * p.group(); ++h) {
        const Head head(p, sequence, h, k, v);
        const PlaneMask& plane = bound.planes[static_cast<size_t>(bound.plane(sequence, h))];
        for (int64_t i = 0; i < s.s_q; ++i) {
          going.on();
          head.softmax(i, keys.of(plane, i), row);
          write_panel(p.out, s.batch, s.q_begin + i, 1, h, p.d_v, row.out.data());
          if (p.lse.defined())
            store(p.lse.data, p.lse.dtype,
                  s.batch * p.lse.stride_b + h * p.lse.stride_h + (s.q_begin + i) * p.lse.stride_q, row.lse);
        }
      }
    });
  }

  void backward(const AttentionProblem& p, const Mask& mask, const Launch&) const override {
    const BoundMask bound = anymask::bind(mask, p.sequences, p.h_q, p.h_kv);
    BiasGradient dbias(p);
    std::vector<double> dsinks(p.sequences.size() * static_cast<size_t>(p.h_q));  // [sequences, h_q]: summed at the end
    for_each_kv_head(p, dbias.wanted(), [&](int64_t sequence, int64_t kv_head, const Going& going) {
      const Sequence& s = p.sequences[static_cast<size_t>(sequence)];
      const std::vector<double> k = read_panel(p.k, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_qk);
      const std::vector<double> v = read_panel(p.v, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_v);
      std::vector<double> dk(k.size()), dv(v.size());  // sums over the q heads that share this kv head
      KeptKeys keys;
      Row row;
      for (int64_t h = kv_head * p.group(); h < (kv_head + 1) * p.group(); ++h) {
        const Head head(p, sequence, h, k, v);
        const PlaneMask& plane = bound.planes[static_cast<size_t>(bound.plane(sequence, h))];
        const std::vector<double> dout = read_panel(p.dout, s.batch, s.q_begin, s.s_q, h, p.d_v);
        std::vector<double> dq(static_cast<size_t>(s.s_q * p.d_qk));
        for (int64_t i = 0; i < s.s_q; ++i) {
          going.on();
          const std::span<const int64_t> kept = keys.of(plane, i);
          head.softmax(i, kept, row);
          const double* dout_i = dout.data() + i * p.d_v;
          const double delta = dot(dout_i, row.out.data(), p.d_v);
          double dlse = 0;
          if (p.dlse.defined())
            dlse = load(p.dlse.data, p.dlse.dtype,
                        s.batch * p.dlse.stride_b + h * p.dlse.stride_h + (s.q_begin + i) * p.dlse.stride_q);
          dsinks[static_cast<size_t>(sequence * p.h_q + h)] += row.sink_probability * (dlse - delta);

          for (size_t n = 0; n < kept.size(); ++n) {
            const int64_t j = kept[n];
            const double probability = row.probability[n];
            for (int64_t d = 0; d < p.d_v; ++d) dv[static_cast<size_t>(j * p.d_v + d)] += probability * dout_i[d];
            const double ds = probability * (dot(dout_i, head.v_row(j), p.d_v) - delta + dlse);
            if (dbias.wanted()) dbias.add(sequence, h, i, j, ds);
            const double dx = p.softcap > 0 ? ds * (1 - row.tanh[n] * row.tanh[n]) : ds;
            for (int64_t d = 0; d < p.d_qk; ++d) {
              dq[static_cast<size_t>(i * p.d_qk + d)] += p.softmax_scale * dx * head.k_row(j)[d];
              dk[static_cast<size_t>(j * p.d_qk + d)] += p.softmax_scale * dx * head.q_row(i)[d];
            }
          }
        }
        write_panel(p.dq, s.batch, s.q_begin, s.s_q, h, p.d_qk, dq.data());
      }
      write_panel(p.dk, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_qk, dk.data());
      write_panel(p.dv, s.batch, s.kv_begin, s.s_kv, kv_head, p.d_v, dv.data());
    });
    dbias.write();
    if (p.dsinks.defined()) {
      for (int64_t h = 0; h < p.h_q; ++h) {
        double sum = 0;
        for (size_t sequence = 0; sequence < p.sequences.size(); ++sequence)
          sum += dsinks[sequence * static_cast<size_t>(p.h_q) + static_cast<size_t>(h)];
        store(p.dsinks.data, p.dsinks.dtype, h * p.dsinks.stride_h, sum);
      }
    }
  }

  std::vector<Fact> explain(const AttentionProblem&, const Mask&, Direction) const override {
    return {{"kernel", "reference"}, {"arithmetic", "float64, one kept pair after another"}};
  }
};

}  // namespace

const Backend& reference_backend() {
  static const Reference backend;
  return backend;
}

}  // namespace anymask
