// `anymask verify`: a backend against the double-precision reference on named and random cases. Beside values within
// the bound it asks for the same bits whatever the number of threads and however often, and for plans that hold exactly
// the mask.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "cli/check.h"
#include "cli/commands.h"
#include "cli/make_call.h"
#include "cli/plan_check.h"
#include "cli/terminal.h"

namespace anymask::cli {

namespace {

struct VerifyOptions {
  int64_t cases = 1000, seed = 1, jobs = 0;
  std::string one;  // an index or a name
  std::string backend = "cpu", target;
  bool json = false;
};

// ------------------------------------------------------- random cases

int64_t random_length(Random& random) {
  if (random.chance(0.02)) return 0;
  const double size = random.uniform();
  if (size < 0.15) return random.between(1, 4);
  if (size < 0.70) return random.between(1, 48);
  if (size < 0.98) return random.between(49, 200);
  return random.between(201, 600);
}

int64_t random_dim(Random& random) {
  const double size = random.uniform();
  return 8 * (size < 0.5 ? random.between(1, 8) : size < 0.8 ? random.between(1, 16) : random.between(1, 32));
}

// Packed sequences have lengths of their own, so their masks are of the kinds that fit any length.
std::string random_text_for_any_length(Random& random) {
  const auto leaf = [&random]() -> std::string {
    switch (random.below(8)) {
      case 0:
        return "full";
      case 1:
        return "causal";
      case 2:
        return "causal(align=\"top_left\")";
      case 3:
        return fmt::format("window({}, {})", random.between(-1, 40), random.between(-1, 40));
      case 4:
        return fmt::format("keys({}, {})", random.below(10), random.between(10, 60));
      case 5:
        return fmt::format("chunked({})", random.between(1, 50));
      case 6:
        return fmt::format("stride({})", random.between(1, 7));
      default:
        return fmt::format("prefix({})", random.below(60));
    }
  };
  std::string text = leaf();
  for (int64_t n = random.below(4); n > 0; --n)
    text = fmt::format("{}({}) {} {}", random.chance(0.2) ? "~" : "", text, random.chance(0.5) ? "&" : "|", leaf());
  return text;
}

// The same values behind strides: heads before tokens, room between rows (NaN there), or one batch entry seen as many.
Tensor strided(const Tensor& tensor, Random& random) {
  const size_t rank = tensor.shape.size();
  const std::vector<int64_t>& shape = tensor.shape;
  std::vector<size_t> order(rank);  // from slowest to fastest; the last axis stays contiguous
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  if (random.chance(0.6)) std::swap(order[rank - 2], order[rank - 3]);
  Tensor result = tensor;
  result.strides.assign(rank, 0);
  int64_t step = 1;
  for (size_t i = rank; i-- > 0;) {
    result.strides[order[i]] = step;
    step *= std::max<int64_t>(1, shape[order[i]]);
    if (i == rank - 1 && random.chance(0.5)) step += random.between(1, 9);
  }
  Tensor memory = make_tensor(tensor.name, tensor.type, {step});
  std::memset(memory.data.get(), 0xff, static_cast<size_t>(memory.bytes()));
  const int64_t count = tensor.numel();
  const auto size = static_cast<size_t>(size_of(tensor.type));
  std::vector<int64_t> index(rank, 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < rank; ++d) at += index[d] * result.strides[d];
    std::memcpy(memory.as<char>() + static_cast<size_t>(at) * size, tensor.as<char>() + static_cast<size_t>(i) * size,
                size);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  result.data = memory.data;
  return result;
}

// The types a backend computes in.
std::vector<ElementType> types_of(const std::string& backend) {
  if (backend == "cuda") return {ElementType::f16, ElementType::bf16};
  return {ElementType::f32, ElementType::f16, ElementType::bf16};
}

Call random_call(uint64_t seed, const std::string& backend) {
  Random random(seed);
  Call call;
  const std::vector<ElementType> types = types_of(backend);
  const ElementType type = types[static_cast<size_t>(random.below(static_cast<int64_t>(types.size())))];
  const int64_t h_kv = random.between(1, 3);
  const int64_t h_q = h_kv * (random.chance(0.5)   ? 1
                              : random.chance(0.8) ? random.between(2, 4)
                                                   : random.between(5, 8));
  const int64_t d_qk = random_dim(random);
  const int64_t d_v = random.chance(0.6) ? d_qk : random_dim(random);
  const bool backward = random.chance(0.6);
  const bool packed = random.chance(0.2);
  int64_t batch = random.between(1, 3);
  int64_t s_q = 0, s_kv = 0, max_q = 0, max_kv = 0;
  if (packed) {
    std::vector<int64_t> cu_q{0}, cu_kv{0};
    const bool same = random.chance(0.5);
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t q = random_length(random) / 2, kv = same ? q : random_length(random) / 2;
      cu_q.push_back(cu_q.back() + q);
      cu_kv.push_back(cu_kv.back() + kv);
      max_q = std::max(max_q, q);
      max_kv = std::max(max_kv, kv);
    }
    s_q = cu_q.back();
    s_kv = cu_kv.back();
    call.cu_seqlens_q = int_tensor("cu_seqlens_q", cu_q);
    if (!same) call.cu_seqlens_kv = int_tensor("cu_seqlens_kv", cu_kv);
  } else {
    s_q = max_q = random_length(random);
    s_kv = max_kv = random.chance(0.5) ? s_q : random_length(random);
  }
  const auto shape = [&](int64_t s, int64_t h, int64_t d) {
    return packed ? std::vector<int64_t>{s, h, d} : std::vector<int64_t>{batch, s, h, d};
  };
  call.q = random_tensor("q", type, shape(s_q, h_q, d_qk), random);
  call.k = random_tensor("k", type, shape(s_kv, h_kv, d_qk), random);
  call.v = random_tensor("v", type, shape(s_kv, h_kv, d_v), random);
  if (random.chance(0.4)) {
    const std::string axes = {random.chance(0.5) ? 'b' : '1', "hg1"[random.below(3)], random.chance(0.5) ? 'q' : '1'};
    call.bias =
        random_bias(axes, random.chance(0.5) ? ElementType::f32 : type, batch, h_q, h_kv, max_q, max_kv, random);
    if (random.chance(0.15)) {  // -inf: as good as dropped
      for (int64_t i = 0; i < call.bias.numel(); ++i) {
        if (random.chance(0.2)) set_element(call.bias, i, -std::numeric_limits<double>::infinity());
      }
    }
  }
  if (random.chance(0.25)) call.softcap = 1 + 30 * random.uniform();
  if (random.chance(0.25)) call.alibi = random_alibi(batch, h_q, random.chance(0.5), random);
  if (random.chance(0.25)) call.sinks = random_tensor("sinks", ElementType::f32, {h_q}, random);
  if (random.chance(0.2)) call.scale = 2 * random.uniform() / std::sqrt(static_cast<double>(d_qk));
  call.deterministic = random.chance(0.5);
  call.threads = random.between(1, 3);
  if (backward) {
    call.dout = random_tensor("dout", type, shape(s_q, h_q, d_v), random);
    if (random.chance(0.3)) {
      call.dlse =
          random_tensor("dlse", ElementType::f32,
                        packed ? std::vector<int64_t>{h_q, s_q} : std::vector<int64_t>{batch, h_q, s_q}, random);
    }
  }
  anymask_mask_t mask = nullptr;
  if (packed) {
    check(anymask_mask_parse(random_text_for_any_length(random).c_str(), nullptr, 0, &mask));
  } else {
    const CallLengths lengths(call);
    check(anymask_mask_random(random.next(), &lengths.value, static_cast<int32_t>(random.between(1, 6)), &mask));
  }
  call.mask = std::shared_ptr<anymask_mask_s>(mask, anymask_mask_free);
  return call;
}

// ----------------------------------------------------------- one case

std::string describe(const Call& call) {
  char* raw = nullptr;
  check(anymask_mask_text(call.mask.get(), &raw));
  std::string mask = take(raw);
  if (mask.size() > 400) mask = mask.substr(0, 400) + "...";
  std::string text = fmt::format("{} q {} k {} v {}", name_of(call.q.type), call.q.shape_text(), call.k.shape_text(),
                                 call.v.shape_text());
  if (call.packed()) text += " packed";
  if (call.bias.present) text += fmt::format(" bias {} {}", call.bias.shape_text(), name_of(call.bias.type));
  if (call.softcap != 0) text += fmt::format(" softcap {:.4g}", call.softcap);
  if (call.alibi.present) text += " alibi " + call.alibi.shape_text();
  if (call.sinks.present) text += " sinks";
  if (call.scale) text += fmt::format(" scale {:.4g}", *call.scale);
  if (call.backward()) text += call.dlse.present ? " backward with dlse" : " backward";
  return text + fmt::format(" threads {}; mask {}", call.threads, mask);
}

// What is wrong with the backend's answer to `call`, or "".
std::string problem_of(const Call& call, const std::string& backend, uint64_t seed) {
  Random random(seed);
  Call own = call;
  own.backend = backend;
  if (random.chance(0.3)) own.q = strided(call.q, random);
  if (random.chance(0.3)) own.k = strided(call.k, random);
  if (random.chance(0.3)) own.v = strided(call.v, random);
  if (call.backward() && random.chance(0.3)) own.dout = strided(call.dout, random);
  const auto compute = [&own](int64_t threads) {
    Call with_threads = own;
    with_threads.threads = threads;
    Results results = allocate_results(own, own.backward());
    Runner runner(with_threads, results);
    runner.forward();
    if (own.backward()) runner.backward();
    runner.finish();
    return results;
  };
  const Results results = compute(own.threads);
  const CheckReport report = check_results(call, results, std::numeric_limits<double>::infinity());
  if (!report.ok()) {
    const TensorError& t = report.worst();
    return fmt::format("{} is off by {:.4g}; the bound is {:.4g} (2 x naive {:.4g} + constant; largest value {:.4g})",
                       t.name, t.error, t.bound, t.naive_error, t.largest);
  }
  // The same bits again, whatever the number of threads. On a GPU gradients promise that only when asked to.
  const int64_t threads = own.threads == 1 ? 2 : 1;
  const Results again = compute(threads);
  std::vector<const Tensor*> first = results.all(), second = again.all();
  if (backend == "cuda" && !own.deterministic) first.resize(2);  // out and lse
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i]->bytes() > 0 &&
        std::memcmp(first[i]->data.get(), second[i]->data.get(), static_cast<size_t>(first[i]->bytes())) != 0) {
      return fmt::format("{} differs bit for bit between two calls, of {} and {} threads", first[i]->name, own.threads,
                         threads);
    }
  }
  if (random.chance(0.125)) return plan_problem(call, random);
  return "";
}

struct Failure {
  std::string which, problem, description, repeat;
};

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& o) : o_(o) {}

  int run() {
    const std::vector<std::string> targets = targets_to_run();
    require_backend();
    for (const std::string& target : targets) {
      if (!target.empty()) check(anymask_cpu_force_target(target.c_str()));
      run_target(target);
    }
    return report();
  }

 private:
  std::vector<std::string> targets_to_run() const {
    if (o_.target.empty()) return {""};
    if (o_.target != "all") return {o_.target};
    char* raw = nullptr;
    check(anymask_cpu_targets(&raw));
    std::vector<std::string> list;
    std::string text = take(raw) + " ";
    for (size_t begin = 0, end; (end = text.find(' ', begin)) != std::string::npos; begin = end + 1) {
      if (end > begin) list.push_back(text.substr(begin, end - begin));
    }
    return list;
  }

  // A backend that is not here is bad input, not a failed check.
  void require_backend() const {
    Call probe = make_call({.name = "probe", .mask = "full", .s_q = 1, .s_kv = 1, .d_qk = 8, .d_v = 8},
                           types_of(o_.backend).back(), false, 1);
    probe.backend = o_.backend;
    Results results = allocate_results(probe, false);
    forward(probe, results);
  }

  void one_case(const std::string& which, const std::string& target, const std::function<Call()>& make, uint64_t seed) {
    std::string problem, description;
    try {
      const Call call = make();
      description = describe(call);
      problem = problem_of(call, o_.backend, seed);
    } catch (const std::exception& error) {
      problem = std::string("refused or failed: ") + error.what();
    }
    ++done_;
    if (problem.empty()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string repeat = fmt::format("anymask verify --seed {} --case {}", o_.seed, which);
    if (o_.backend != "cpu") repeat += " --backend " + o_.backend;
    if (!target.empty()) repeat += " --target " + target;
    failures_.push_back({which, problem, description, repeat});
  }

  void named_case(const cases::AttentionCase& c, const std::string& target) {
    for (const ElementType type : types_of(o_.backend)) {
      one_case(
          c.name, target, [&] { return make_call(c, type, true, static_cast<uint64_t>(o_.seed)); },
          static_cast<uint64_t>(o_.seed));
    }
  }

  void random_case(int64_t index, const std::string& target) {
    Random mix(static_cast<uint64_t>(o_.seed) * 0x100000001b3u + static_cast<uint64_t>(index));
    const uint64_t seed = mix.next();
    one_case(
        std::to_string(index), target, [this, seed] { return random_call(seed, o_.backend); }, seed);
  }

  void run_target(const std::string& target) {
    const std::vector<cases::AttentionCase>& named = cases::small_cases();
    if (!o_.one.empty()) {
      for (const cases::AttentionCase& c : named) {
        if (c.name == o_.one) return named_case(c, target);
      }
      int64_t index = -1;
      const char* const text_end = o_.one.data() + o_.one.size();
      const auto [end, error] = std::from_chars(o_.one.data(), text_end, index);
      if (error != std::errc() || end != text_end || index < 0)
        throw UsageError("--case is \"" + o_.one + "\"; expected a number >= 0 of 63 bits or the name of a case");
      return random_case(index, target);
    }
    const auto total = static_cast<int64_t>(named.size()) + o_.cases;
    std::atomic<int64_t> next{0};
    Progress progress(target.empty() ? "verify" : "verify " + target, total);
    const auto work = [&](bool shows_progress) {
      for (int64_t i = next++; i < total && !too_many(); i = next++) {
        if (i < static_cast<int64_t>(named.size())) {
          named_case(named[static_cast<size_t>(i)], target);
        } else {
          random_case(i - static_cast<int64_t>(named.size()), target);
        }
        if (shows_progress) progress.update(i);
      }
    };
    const int64_t jobs =
        o_.jobs > 0 ? o_.jobs : std::max<int64_t>(1, static_cast<int64_t>(std::thread::hardware_concurrency()));
    std::vector<std::thread> helpers;
    for (int64_t i = 1; i < std::min(jobs, total); ++i) helpers.emplace_back(work, false);
    work(true);
    for (std::thread& helper : helpers) helper.join();
  }

  bool too_many() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failures_.size() >= 20;
  }

  int report() {
    std::sort(failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) { return a.which < b.which; });
    if (o_.json) {
      nlohmann::ordered_json json = {{"backend", o_.backend},
                                     {"target", o_.target},
                                     {"seed", o_.seed},
                                     {"compared", done_.load()},
                                     {"failures", nlohmann::ordered_json::array()}};
      for (const Failure& f : failures_) {
        json["failures"].push_back(
            {{"case", f.which}, {"problem", f.problem}, {"description", f.description}, {"repeat", f.repeat}});
      }
      fmt::print("{}\n", json.dump());
      return failures_.empty() ? 0 : 1;
    }
    const bool color = color_on_stdout();
    for (const Failure& f : failures_) {
      fmt::print("{} case {}: {}\n  {}\n  repeat with: {}\n", paint("FAILED", "31", color), f.which, f.problem,
                 f.description, f.repeat);
    }
    if (failures_.empty()) {
      fmt::print("{} {} comparisons of backend {} with the reference, seed {}: all within the bound\n",
                 paint("ok", "32", color), human_count(done_.load()), o_.backend, o_.seed);
      return 0;
    }
    fmt::print("{} of {} comparisons failed, seed {}{}\n", failures_.size(), human_count(done_.load()), o_.seed,
               failures_.size() >= 20 ? " (stopped early)" : "");
    return 1;
  }

  const VerifyOptions& o_;
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  std::vector<Failure> failures_;
};

int run_verify(const VerifyOptions& o) {
  if (o.cases < 0) throw UsageError("--cases is " + std::to_string(o.cases) + "; expected a number >= 0");
  if (o.jobs < 0 || o.jobs > 1024) throw UsageError("--jobs is " + std::to_string(o.jobs) + "; expected 0 to 1024");
  return Verifier(o).run();
}

}  // namespace

void add_verify(Args& app) {
  auto o = std::make_shared<VerifyOptions>();
  Args command =
      app.command("verify", "compare a backend with the reference on named and random cases",
                  "anymask verify\nanymask verify --cases 10000 --seed 7\nanymask verify --seed 7 --case 123\n"
                  "anymask verify --case causal-s129-h4x2-d128\nanymask verify --target all");
  command.option("--cases", o->cases, "N", "random cases, after the named ones (1000)");
  command.option("--seed", o->seed, "N", "the same seed gives the same cases (1)");
  command.option("--case", o->one, "N", "only this one: the number of a random case, or the name of a named one");
  command.choice("--backend", o->backend, {"cpu", "cuda", "reference", "naive"}, "what is verified");
  command.option("--target", o->target, "NAME",
                 "force a vector target of the CPU, such as AVX2; \"all\": each that runs here");
  command.option("--jobs", o->jobs, "N", "cases compared side by side; 0: one per core");
  command.flag("--json", o->json, "print one JSON object");
  command.action([o] { return run_verify(*o); });
}

}  // namespace anymask::cli
