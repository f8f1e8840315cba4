#include "cli/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace anymask::cli {

namespace {

constexpr double unit_f32 = 0x1p-24;

double unit_roundoff(ElementType type) {
  return type == ElementType::bf16 ? 0x1p-9 : type == ElementType::f16 ? 0x1p-12 : unit_f32;
}

// Root mean square; of big tensors, of a stride of it.
double rms(const Tensor& tensor) {
  const int64_t count = tensor.numel();
  if (!tensor.present || count <= 0) return 0;
  const int64_t step = std::max<int64_t>(1, count / 65536);
  double sum = 0;
  int64_t n = 0;
  for (int64_t i = 0; i < count; i += step, ++n) sum += element(tensor, i) * element(tensor, i);
  return std::sqrt(sum / static_cast<double>(n));
}

double distance(double got, double expected) {
  if (std::isnan(got) || std::isnan(expected)) return std::numeric_limits<double>::infinity();
  if (got == expected) return 0;  // infinities too
  return std::fabs(got - expected);
}

// Largest errors of one output, gathered over any number of elements.
struct Gathered {
  std::string name;
  double error = 0, naive_error = 0, largest = 0;
  void add(double got, double expected, double naive) {
    error = std::max(error, distance(got, expected));
    const double naive_distance = distance(naive, expected);
    if (std::isfinite(naive_distance)) naive_error = std::max(naive_error, naive_distance);
    if (std::isfinite(expected)) largest = std::max(largest, std::fabs(expected));
  }
  void add_all(const Tensor& got, const Tensor& expected, const Tensor& naive) {
    const int64_t count = got.numel();
    for (int64_t i = 0; i < count; ++i) add(element(got, i), element(expected, i), element(naive, i));
  }
};

// What errors are measured in: sizes of the quantities a call computes, as for independent random inputs.
struct Sizes {
  double v, dout, q, k;      // root mean squares
  double scale;              // of the products
  double rounding;           // of a score in fp32, in roundoffs, four standard deviations of it
  double ds;                 // of dP - delta
  double per_key, per_bias;  // sums over the rows that see a key: of P, which is about 1 / keys a row
  double spread;             // of sum P k over a row's keys, against one k
  ElementType type;

  explicit Sizes(const Call& call)
      : v(rms(call.v)), dout(rms(call.dout)), q(rms(call.q)), k(rms(call.k)), type(call.q.type) {
    const auto dim = static_cast<double>(std::max<int64_t>(1, call.d_qk()));
    scale = std::fabs(call.scale.value_or(1 / std::sqrt(dim)));
    // A product over d rounds d partial sums, the k-th of about sqrt(k / d) of the score: sqrt(d / 6) roundoffs in all.
    // tanh of vectors is right to 5 roundoffs (cpu/exp-inl.h). ALiBi rounds once.
    const double score = scale * std::sqrt(dim) * q * k;
    rounding = 4 * score * std::sqrt(std::max(dim, 6.0) / 6);
    if (call.softcap > 0) rounding += 4 * 5 * std::min(score, call.softcap);
    double alibi = 0;
    int64_t longest = 0;
    for (const Stretch& s : stretches(call)) longest = std::max({longest, s.s_q, s.s_kv});
    for (int64_t i = 0; call.alibi.present && i < call.alibi.numel(); ++i) {
      alibi = std::max(alibi, std::fabs(element(call.alibi, i)) * static_cast<double>(longest));
    }
    rounding += alibi;
    ds = dout * v * std::sqrt(static_cast<double>(call.d_v())) + rms(call.dlse);
    const double rows = static_cast<double>(call.q.numel()) / (dim * static_cast<double>(call.h_q()));
    const double keys =
        static_cast<double>(count_pairs(call).kept) / std::max(1.0, rows * static_cast<double>(call.h_q()));
    const double p = std::min(1.0, 4 / std::max(keys, 1.0));
    spread = std::min(1.0, 2 / std::sqrt(std::max(keys, 1.0)));
    per_key = std::max(1.0, std::sqrt(rows * static_cast<double>(call.h_q() / call.h_kv()))) * p;
    per_bias = std::max(1.0, std::sqrt(rows * static_cast<double>(call.h_q()))) * p;
  }

  double of(const std::string& name) const {
    if (name == "out") return v;
    if (name == "dv") return dout * per_key;
    if (name == "dq") return ds * scale * k;
    if (name == "dk") return ds * scale * q * per_key;
    if (name == "dbias" || name == "dsinks") return ds * per_bias;
    return 1;  // lse
  }
};

// The small constant, for when the yardstick's own rounding happens to be small. Rounding the result itself; and errors
// relative to P, which remain where the exact result cancels to (almost) nothing: those of a score (Sizes::rounding),
// and 40 roundoffs for the rest, four standard deviations of ten: exp2 in both directions (4 each), lse, sums of P,
// products of dout with v and out. They meet elements of up to four times the root mean square. Gradients of scores see
// delta = rowsum(dout * out), where out has been rounded to the type: with few keys nothing averages that.
double constant_of(const Sizes& sizes, const std::string& name, double largest) {
  const bool in_f32 = name == "dbias" || name == "dsinks", through_delta = in_f32 || name == "dq" || name == "dk";
  const double unit = name == "lse" || in_f32 ? unit_f32 : unit_roundoff(sizes.type);
  const double half_step = sizes.type == ElementType::f16 ? 0x1p-24 : 0;  // between subnormal fp16 numbers
  const double delta = through_delta ? 2 * unit_roundoff(sizes.type) * (in_f32 ? 1 : sizes.spread) : 0;
  // Sums of P with fixed terms: where P is concentrated they are as large as what is seen.
  const double size = name == "out" || name == "dv" ? std::max(sizes.of(name), largest) : sizes.of(name);
  return 4 * unit * largest + 4 * (40 + sizes.rounding) * unit_f32 * size + delta * sizes.of(name) + half_step;
}

TensorError judged(const Sizes& sizes, const Gathered& gathered) {
  TensorError result;
  result.name = gathered.name;
  result.error = gathered.error;
  result.naive_error = gathered.naive_error;
  result.largest = gathered.largest;
  result.bound = 2 * gathered.naive_error + constant_of(sizes, gathered.name, gathered.largest);
  return result;
}

// Forward, and backward where wanted, by another backend.
Results computed_by(const Call& call, const char* backend, bool wide) {
  Call other = call;
  other.backend = backend;
  other.deterministic = false;
  Results results = allocate_results(other, call.backward(), wide);
  forward(other, results);
  if (call.backward()) backward(other, results);
  return results;
}

CheckReport check_whole(const Call& call, const Results& results) {
  const Results reference = computed_by(call, "reference", true);
  const Results naive = computed_by(call, "naive", false);
  const std::vector<const Tensor*> got = results.all(), expected = reference.all(), plain = naive.all();
  const Sizes sizes(call);
  CheckReport report;
  report.scope = "every element";
  for (size_t i = 0; i < got.size(); ++i) {
    Gathered gathered;
    gathered.name = got[i]->name;
    gathered.add_all(*got[i], *expected[i], *plain[i]);
    report.tensors.push_back(judged(sizes, gathered));
  }
  return report;
}

// ------------------------------------------------------------ sampling

constexpr int64_t group_rows =
    4;  // sampled rows come in groups of neighbours: the mask's bits are asked for group by group

// Rows of one stretch to look at: groups spread evenly, the first and the last row among them.
std::vector<int64_t> sampled_rows(int64_t s_q, int64_t wanted) {
  std::vector<int64_t> rows;
  const int64_t groups = std::max<int64_t>(1, wanted / group_rows);
  int64_t next = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t last_begin = std::max<int64_t>(0, s_q - group_rows);
    const int64_t begin = std::max(next, groups == 1 ? last_begin : last_begin * g / (groups - 1));
    for (int64_t r = begin; r < std::min(begin + group_rows, s_q); ++r) rows.push_back(r);
    next = std::min(begin + group_rows, s_q);
  }
  return rows;
}

// [1, n, ...] of tokens `first + rows[i]` of a tensor whose leading axes are tokens ([b, s, ...] or [total, ...]).
Tensor gather_tokens(const Tensor& tensor, bool packed, int64_t first, const std::vector<int64_t>& rows) {
  const size_t lead = packed ? 1 : 2;
  std::vector<int64_t> shape{1, static_cast<int64_t>(rows.size())};
  int64_t width = size_of(tensor.type);
  for (size_t i = lead; i < tensor.shape.size(); ++i) shape.push_back(tensor.shape[i]), width *= tensor.shape[i];
  Tensor result = make_tensor(tensor.name, tensor.type, shape);
  for (size_t i = 0; i < rows.size() && width > 0; ++i) {
    std::memcpy(result.as<char>() + static_cast<int64_t>(i) * width, tensor.as<char>() + (first + rows[i]) * width,
                static_cast<size_t>(width));
  }
  return result;
}

std::vector<int64_t> count_from(int64_t n) {
  std::vector<int64_t> list(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) list[static_cast<size_t>(i)] = i;
  return list;
}

// Where (head, row) of one stretch lies in [b, h, s] or [h, total].
int64_t stat_index(const Call& call, int64_t sequence, const Stretch& s, int64_t head, int64_t row) {
  return call.packed() ? head * call.q.shape[0] + s.q_begin + row : (sequence * call.h_q() + head) * s.s_q + row;
}

// Where the row of the bias that (sequence, head of `heads`, row) reads begins. The bias is [b | 1, h_q | h_kv | 1, s_q
// | 1, keys], or its last two axes alone.
int64_t bias_row(const Call& call, int64_t sequence, int64_t head, int64_t heads, int64_t row) {
  std::vector<int64_t> shape = call.bias.shape;
  if (shape.size() == 2) shape.insert(shape.begin(), {1, 1});
  const int64_t own_head = shape[1] == 1 ? 0 : head / (heads / shape[1]);
  return (((shape[0] == 1 ? 0 : sequence) * shape[1] + own_head) * shape[2] + (shape[2] == 1 ? 0 : row)) * shape[3];
}

// Some rows of one stretch as a call of its own: all keys, the mask as booleans, ALiBi (which depends on the row's
// place) inside the bias.
Call rows_as_call(const Call& call, int64_t sequence, const Stretch& s, const std::vector<int64_t>& rows) {
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t h_q = call.h_q();
  Call sub;
  sub.scale = call.scale;
  sub.softcap = call.softcap;
  sub.threads = call.threads;
  sub.sinks = call.sinks;
  sub.q = gather_tokens(call.q, call.packed(), s.q_begin, rows);
  sub.k = gather_tokens(call.k, call.packed(), s.kv_begin, count_from(s.s_kv));
  sub.v = gather_tokens(call.v, call.packed(), s.kv_begin, count_from(s.s_kv));
  if (call.dout.present) sub.dout = gather_tokens(call.dout, call.packed(), s.q_begin, rows);
  if (call.dlse.present) {
    sub.dlse = make_tensor("dlse", ElementType::f32, {1, h_q, n});
    for (int64_t h = 0; h < h_q; ++h) {
      for (int64_t i = 0; i < n; ++i) {
        set_element(sub.dlse, h * n + i,
                    element(call.dlse, stat_index(call, sequence, s, h, rows[static_cast<size_t>(i)])));
      }
    }
  }
  if (call.bias.present || call.alibi.present) {
    std::vector<int64_t> from = call.bias.present ? call.bias.shape : std::vector<int64_t>{1, 1, 1, s.s_kv};
    if (from.size() == 2) from.insert(from.begin(), {1, 1});
    const int64_t heads = call.alibi.present ? h_q : from[1];
    const int64_t sub_rows = call.alibi.present || from[2] != 1 ? n : 1;
    sub.bias = make_tensor("bias", call.bias.present && !call.alibi.present ? call.bias.type : ElementType::f32,
                           {1, heads, sub_rows, s.s_kv});
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < sub_rows; ++i) {
        const int64_t row = rows[static_cast<size_t>(i)];
        const int64_t base = call.bias.present ? bias_row(call, sequence, h, heads, row) : 0;
        const double slope =
            !call.alibi.present ? 0 : element(call.alibi, call.alibi.numel() == h_q ? h : sequence * h_q + h);
        for (int64_t key = 0; key < s.s_kv; ++key) {
          double value = call.bias.present ? element(call.bias, base + key) : 0;
          if (call.alibi.present) value -= slope * static_cast<double>(std::abs(row + s.s_kv - s.s_q - key));
          set_element(sub.bias, ((h * sub_rows) + i) * s.s_kv + key, value);
        }
      }
    }
  }
  if (call.mask) {
    const CallLengths lengths(call);
    Tensor kept = make_tensor("kept", ElementType::boolean, {1, h_q, n, s.s_kv});
    for (int64_t h = 0; h < h_q; ++h) {
      for (int64_t i = 0; i < n;) {
        int64_t together = 1;
        while (i + together < n && rows[static_cast<size_t>(i + together)] == rows[static_cast<size_t>(i)] + together)
          ++together;
        int64_t shape[2] = {together, s.s_kv};
        const DLTensor view =
            make_view(kept.as<uint8_t>() + (h * n + i) * s.s_kv, ElementType::boolean, 2, shape, nullptr);
        check(anymask_mask_dense(call.mask.get(), &lengths.value, sequence, h, rows[static_cast<size_t>(i)], 0, &view));
        i += together;
      }
    }
    const DLTensor view = kept.view();
    anymask_argument argument{};
    argument.type = ANYMASK_ARG_ARRAY;
    argument.array = {"kept", &view, 0};
    anymask_mask_t mask = nullptr;
    check(anymask_mask_leaf("dense", &argument, 1, &mask));
    sub.mask = std::shared_ptr<anymask_mask_s>(mask, anymask_mask_free);
    sub.mask_arrays.push_back(std::move(kept));
  }
  return sub;
}

// The call with dout and dlse zero but in the sampled rows: its dk and dv come from those rows alone, so that the rows
// as a call of their own give the exact answer for every key.
struct Sample {
  int64_t sequence;
  Stretch stretch;
  std::vector<int64_t> rows;
};
Call with_gradient_of_rows(const Call& call, const std::vector<Sample>& samples) {
  Call masked = call;
  masked.dout = make_tensor("dout", call.dout.type, call.dout.shape);
  if (call.dlse.present) masked.dlse = make_tensor("dlse", ElementType::f32, call.dlse.shape);
  const int64_t width = call.h_q() * call.d_v() * size_of(call.dout.type);
  for (const Sample& sample : samples) {
    for (const int64_t row : sample.rows) {
      const int64_t at = (sample.stretch.q_begin + row) * width;
      if (width > 0) std::memcpy(masked.dout.as<char>() + at, call.dout.as<char>() + at, static_cast<size_t>(width));
      for (int64_t h = 0; call.dlse.present && h < call.h_q(); ++h) {
        const int64_t index = stat_index(call, sample.sequence, sample.stretch, h, row);
        masked.dlse.as<float>()[index] = call.dlse.as<float>()[index];
      }
    }
  }
  return masked;
}

// dbias and dsinks of the sampled rows, summed over the calls those rows became: what broadcasting sums.
class SideSums {
 public:
  SideSums(const Call& call, bool with_bias)
      : bias_(with_bias ? static_cast<size_t>(call.bias.numel()) : 0),
        sinks_(call.sinks.present ? static_cast<size_t>(call.h_q()) : 0) {}

  void add(const Call& call, const Sample& sample, const Results& results) {
    for (size_t h = 0; h < sinks_.size(); ++h) sinks_[h] += element(results.dsinks, static_cast<int64_t>(h));
    if (bias_.empty()) return;
    const Tensor& from = results.dbias;  // [1, heads, rows or 1, s_kv]
    for (int64_t h = 0; h < from.shape[1]; ++h) {
      for (int64_t i = 0; i < from.shape[2]; ++i) {
        const int64_t base = bias_row(call, sample.sequence, h, from.shape[1], sample.rows[static_cast<size_t>(i)]);
        for (int64_t key = 0; key < from.shape[3]; ++key) {
          bias_[static_cast<size_t>(base + key)] += element(from, (h * from.shape[2] + i) * from.shape[3] + key);
        }
      }
    }
  }
  const std::vector<double>& bias() const { return bias_; }
  const std::vector<double>& sinks() const { return sinks_; }

 private:
  std::vector<double> bias_, sinks_;
};

Gathered compared(const char* name, const Tensor& got, const std::vector<double>& expected,
                  const std::vector<double>& plain) {
  Gathered gathered{.name = name};
  for (size_t i = 0; i < expected.size(); ++i)
    gathered.add(element(got, static_cast<int64_t>(i)), expected[i], plain[i]);
  return gathered;
}

CheckReport check_sampled(const Call& call, const Results& results, double budget) {
  std::vector<Stretch> all = stretches(call);
  std::vector<std::pair<int64_t, Stretch>> chosen;  // the longest, at most four
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].s_q > 0) chosen.push_back({static_cast<int64_t>(i), all[i]});
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) {
    return static_cast<double>(a.second.s_q) * static_cast<double>(a.second.s_kv) >
           static_cast<double>(b.second.s_q) * static_cast<double>(b.second.s_kv);
  });
  if (chosen.size() > 4) chosen.resize(4);

  std::vector<Sample> samples;
  int64_t total_rows = 0, all_rows = 0;
  for (const Stretch& s : all) all_rows += s.s_q;
  for (const auto& [sequence, s] : chosen) {
    const double row_cost = (forward_flops(call, s.s_kv) + (call.backward() ? backward_flops(call, s.s_kv) : 0)) *
                            static_cast<double>(call.h_q());
    const double affordable = budget / static_cast<double>(chosen.size()) / std::max(row_cost, 1.0);
    samples.push_back({sequence, s, sampled_rows(s.s_q, static_cast<int64_t>(std::clamp(affordable, 8.0, 256.0)))});
    total_rows += static_cast<int64_t>(samples.back().rows.size());
  }

  Results of_rows;  // gradients of the sampled rows alone
  if (call.backward()) {
    const Call masked = with_gradient_of_rows(call, samples);
    of_rows = allocate_results(call, true);
    of_rows.out = results.out;
    of_rows.lse = results.lse;
    backward(masked, of_rows);
  }

  constexpr int64_t most_bias = int64_t{1} << 25;  // elements of dbias worth two sums in double
  const bool with_bias = call.bias.present && call.bias.numel() <= most_bias;
  SideSums expected_sides(call, with_bias), plain_sides(call, with_bias);
  const int64_t h_q = call.h_q();
  Gathered out{.name = "out"}, lse{.name = "lse"}, dq{.name = "dq"}, dk{.name = "dk"}, dv{.name = "dv"};
  for (const Sample& sample : samples) {
    const Call sub = rows_as_call(call, sample.sequence, sample.stretch, sample.rows);
    const Results reference = computed_by(sub, "reference", true);
    const Results naive = computed_by(sub, "naive", false);
    const auto n = static_cast<int64_t>(sample.rows.size());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = sample.rows[static_cast<size_t>(i)];
      const int64_t token = sample.stretch.q_begin + row;
      const auto compare_token = [&](Gathered& into, const Tensor& got, const Tensor& expected, const Tensor& plain,
                                     int64_t width) {
        for (int64_t j = 0; j < width; ++j) {
          into.add(element(got, token * width + j), element(expected, i * width + j), element(plain, i * width + j));
        }
      };
      compare_token(out, results.out, reference.out, naive.out, h_q * call.d_v());
      for (int64_t h = 0; h < h_q; ++h) {
        lse.add(element(results.lse, stat_index(call, sample.sequence, sample.stretch, h, row)),
                element(reference.lse, h * n + i), element(naive.lse, h * n + i));
      }
      if (call.backward()) compare_token(dq, results.dq, reference.dq, naive.dq, h_q * call.d_qk());
    }
    if (!call.backward()) continue;
    const auto compare_keys = [&](Gathered& into, const Tensor& got, const Tensor& expected, const Tensor& plain,
                                  int64_t width) {
      for (int64_t j = 0; j < sample.stretch.s_kv * width; ++j) {
        into.add(element(got, sample.stretch.kv_begin * width + j), element(expected, j), element(plain, j));
      }
    };
    compare_keys(dk, of_rows.dk, reference.dk, naive.dk, call.h_kv() * call.d_qk());
    compare_keys(dv, of_rows.dv, reference.dv, naive.dv, call.h_kv() * call.d_v());
    expected_sides.add(call, sample, reference);
    plain_sides.add(call, sample, naive);
  }

  const Sizes sizes(call);
  CheckReport report;
  report.sampled = true;
  report.scope = fmt::format("{} of {} rows, all heads", total_rows, all_rows);
  report.tensors = {judged(sizes, out), judged(sizes, lse)};
  if (call.backward()) {
    report.scope += "; other gradients than dq as those rows alone give them";
    if (call.bias.present && !with_bias) report.scope += ", dbias not at all (too large)";
    for (const Gathered& gathered : {dq, dk, dv}) report.tensors.push_back(judged(sizes, gathered));
    if (with_bias)
      report.tensors.push_back(
          judged(sizes, compared("dbias", of_rows.dbias, expected_sides.bias(), plain_sides.bias())));
    if (call.sinks.present)
      report.tensors.push_back(
          judged(sizes, compared("dsinks", of_rows.dsinks, expected_sides.sinks(), plain_sides.sinks())));
  }
  return report;
}

}  // namespace

bool CheckReport::ok() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorError& t) { return t.ok(); });
}

const TensorError& CheckReport::worst() const {
  return *std::max_element(tensors.begin(), tensors.end(), [](const TensorError& a, const TensorError& b) {
    return a.error / std::max(a.bound, 1e-300) < b.error / std::max(b.bound, 1e-300);
  });
}

CheckReport check_results(const Call& call, const Results& results, double budget) {
  const int64_t kept = count_pairs(call).kept;
  const double cost = forward_flops(call, kept) + (call.backward() ? backward_flops(call, kept) : 0);
  return cost <= budget ? check_whole(call, results) : check_sampled(call, results, budget);
}

}  // namespace anymask::cli
