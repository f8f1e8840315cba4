// `anymask bench`: named suites on this machine. Each case is first checked against the reference, then timed; beside
// each stands the peak measured in this process moments before.
//
// One JSON object a line: suite, case, who, backend, direction (fwd, bwd, products, plan, select, new, host), dtype, ms
// (median), spread (quartiles over median), tflops (on kept pairs), share (of peak), peak (TFLOP/s), device, versions,
// commit, date. tflops and share are null where nothing is computed. `products` beside a dense case of a CPU: what the
// case would take at the rate its two products have alone.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cases/gpu_cases.h"
#include "cli/check.h"
#include "cli/commands.h"
#include "cli/interleaved.h"
#include "cli/io/file.h"
#include "cli/make_call.h"
#include "cli/picture/picture.h"
#include "cli/terminal.h"
#include "cli/timing.h"

namespace anymask::cli {

namespace {

using nlohmann::ordered_json;

struct BenchOptions {
  std::string device = "cpu", suite, filter, picture;
  int64_t threads = 0;
  bool quick = false, json = false;
};

struct Row {
  std::string suite, name, direction, dtype;
  double ms = 0, spread = 0;
  double tflops = std::numeric_limits<double>::quiet_NaN();  // NaN: not a computation
  double peak = 0;                                           // TFLOP/s
  double share = 0;                                          // of the peak
  std::string note;                                          // for people
};

const std::vector<std::string> suites = {"forward", "backward", "bf16",    "masks", "plan",
                                         "topk",    "host",     "scaling", "small"};

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(':') != std::string::npos) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string best_target() {
  char* raw = nullptr;
  check(anymask_cpu_targets(&raw));
  const std::string targets = take(raw);
  return targets.substr(0, targets.find(' '));
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// The card's name; an error where there is none.
std::string cuda_device() {
  check(anymask_cuda_synchronize(0));
  char* raw = nullptr;
  check(anymask_backends(&raw));
  return nlohmann::json::parse(take(raw))["cuda"].value("device 0", "a CUDA device");
}

// What it does at its best, for people.
std::string cuda_rates() {
  double flops = 0, copy_bytes = 0;
  check(anymask_cuda_peak(0, &flops, &copy_bytes));
  return fmt::format("products at {:.0f} TFLOP/s, copies at {:.2f} TB/s", flops / 1e12, copy_bytes / 1e12);
}

class Bench {
 public:
  explicit Bench(const BenchOptions& o) : o_(o), cuda_(o.device == "cuda") {
    threads_ =
        o.threads > 0 ? o.threads : std::max<int64_t>(1, static_cast<int64_t>(std::thread::hardware_concurrency()));
    device_ = cuda_ ? cuda_device() : processor() + ", " + best_target();
    versions_ = fmt::format("anymask {}, {}", anymask_version(), compiler());
  }

  int run() {
    std::vector<const cases::BenchCase*> chosen;
    for (const cases::BenchCase& c : cuda_ ? cases::gpu_bench_cases() : cases::bench_cases()) {
      if ((o_.suite.empty() || c.suite == o_.suite) && c.shape.name.find(o_.filter) != std::string::npos)
        chosen.push_back(&c);
    }
    if (chosen.empty()) {
      throw UsageError("no case " + (o_.suite.empty() ? "" : "of suite " + o_.suite) + " has \"" + o_.filter +
                       "\" in its name: `anymask bench " + o_.device + " --quick` shows all names");
    }
    require_picture(chosen);
    {
      Progress progress("bench", static_cast<int64_t>(chosen.size()));
      for (size_t i = 0; i < chosen.size(); ++i) {
        progress.update(static_cast<int64_t>(i), chosen[i]->shape.name);
        one_case(*chosen[i]);
      }
    }
    if (!o_.picture.empty()) draw();
    return failed_ ? 1 : 0;
  }

 private:
  // A picture that could not be drawn is said before minutes of measuring.
  void require_picture(const std::vector<const cases::BenchCase*>& chosen) const {
    if (o_.picture.empty()) return;
    if (std::all_of(chosen.begin(), chosen.end(), [](const cases::BenchCase* c) { return c->suite == "host"; })) {
      throw UsageError("--picture draws shares of the peak, which the host suite has none of: choose another suite");
    }
    const std::string end = o_.picture.size() < 4 ? "" : o_.picture.substr(o_.picture.size() - 4);
    if (end != ".svg" && end != ".png")
      throw UsageError("--picture is " + o_.picture + "; expected a name that ends in .svg or .png");
    OutputFiles("--picture").open(o_.picture);
  }

  void one_case(const cases::BenchCase& c) {
    if (cuda_) {
      attention_case(c, ElementType::bf16, false);
      if (c.suite != "forward") attention_case(c, ElementType::bf16, true);
      return;
    }
    if (c.suite == "plan") return plan_case(c);
    if (c.suite == "topk") return topk_case(c);
    if (c.suite == "host") return host_case(c);
    if (c.suite == "scaling") return scaling_case(c);
    attention_case(c, c.suite == "bf16" ? ElementType::bf16 : ElementType::f32, c.suite == "backward");
  }

  // Checked on sampled rows; false (and said so) when it fails.
  bool checked(const std::string& name, const Call& call, const Results& results) {
    const CheckReport report = check_results(call, results, o_.quick ? 1e8 : 4e8);
    if (report.ok()) return true;
    failed_ = true;
    std::fflush(stdout);
    std::fputs(fmt::format("\nanymask bench: {} is not timed: {} is off by {:.3g}; the bound is {:.3g}\n", name,
                           report.worst().name, report.worst().error, report.worst().bound)
                   .c_str(),
               stderr);
    return false;
  }

  // Calls until enough time is spent, at least five.
  std::vector<double> samples(const std::function<void()>& work) const {
    const double enough = o_.quick ? 200 : 1500;
    std::vector<double> ms;
    double spent = 0;
    while ((spent < enough || ms.size() < 5) && ms.size() < 200) {
      ms.push_back(milliseconds_of(work));
      spent += ms.back();
    }
    return ms;
  }

  double peak_now(ElementType type, int64_t threads) const {
    if (!cuda_) return cpu_peak_now(type, threads);
    double peak = 0;
    check(anymask_cuda_peak(0, &peak, nullptr));
    return peak / 1e12;
  }

  Row row_of(const cases::BenchCase& c, const std::string& name, const char* direction, ElementType type,
             const std::vector<double>& ms) const {
    Row row;
    row.suite = c.suite;
    row.name = name;
    row.direction = direction;
    row.dtype = name_of(type);
    row.ms = median(ms);
    row.spread = spread(ms);
    return row;
  }

  void attention_case(const cases::BenchCase& c, ElementType type, bool with_backward) {
    Call call = make_call(c.shape, type, with_backward, 1);
    call.backend = o_.device;
    call.threads = cuda_ ? 0 : threads_;
    const PairCount pairs = count_pairs(call);
    Results results = allocate_results(call, with_backward);
    Runner runner(call, results);
    runner.forward();
    if (with_backward) runner.backward();
    runner.finish();
    if (!checked(c.shape.name, call, results)) return;
    const double flops = with_backward ? backward_flops(call, pairs.kept) : forward_flops(call, pairs.kept);
    const auto once = [&] {
      with_backward ? runner.backward() : runner.forward();
      runner.wait();
    };
    const char* direction = with_backward ? "bwd" : "fwd";
    if (cuda_) {  // a card's peak takes a while: it is taken at both ends
      std::vector<double> peaks{peak_now(type, 0)};
      Row row = row_of(c, c.shape.name, direction, type, samples(once));
      peaks.push_back(peak_now(type, 0));
      set_rate(row, flops, median(peaks));
      row.note = percent(pairs.share()) + " kept";
      emit(row);
      return;
    }
    const bool products = type == ElementType::f32 && (c.suite == "forward" || c.suite == "backward");
    Interleaved found{flops, type, threads_, products ? call.q.shape.back() : 0};
    while (!enough(found)) found.sample(once);
    Row row = row_of(c, c.shape.name, found, direction, percent(pairs.share()) + " kept");
    if (products) row.note += fmt::format("; {} of its products", percent(median(found.of_products)));
    emit(row);
    if (!products) return;
    Row bound = row_of(c, c.shape.name, "products", type, found.products_ms);
    set_rate(bound, flops, row.peak);
    bound.note = fmt::format("the same work at the rate of packed {} products alone", call.q.shape.back());
    emit(bound);
  }

  // One thread and two by turns.
  void scaling_case(const cases::BenchCase& c) {
    Call call = make_call(c.shape, ElementType::f32, false, 1);
    call.backend = "cpu";
    call.threads = 1;
    const PairCount pairs = count_pairs(call);
    Results results = allocate_results(call, false);
    forward(call, results);
    if (!checked(c.shape.name, call, results)) return;
    const int64_t most = std::min(2u, std::max(1u, std::thread::hardware_concurrency()));
    std::vector<Interleaved> found;
    for (int64_t threads = 1; threads <= most; ++threads)
      found.push_back({forward_flops(call, pairs.kept), ElementType::f32, threads});
    std::vector<double> gains;
    while (!enough(found[0])) {
      for (Interleaved& of : found) {
        call.threads = of.threads;
        of.sample([&] { forward(call, results); });
      }
      gains.push_back(found[0].ms.back() / found.back().ms.back());
    }
    for (const Interleaved& of : found) {
      Row row = row_of(c, fmt::format("{}-t{}", c.shape.name, of.threads), of, "fwd", percent(pairs.share()) + " kept");
      if (of.threads > 1)
        row.note += fmt::format("; {:.2f} times one thread ({:.2f} to {:.2f})", median(gains), quantile(gains, 0.25),
                                quantile(gains, 0.75));
      emit(row);
    }
  }

  static void set_rate(Row& row, double flops, double peak) {
    row.tflops = flops / row.ms / 1e9;
    row.peak = peak;
    row.share = row.tflops / peak;
  }

  // Until 3 s of calls are spent, at least five and at most 300 of them.
  bool enough(const Interleaved& found) const {
    return (found.spent >= (o_.quick ? 200 : 3000) && found.ms.size() >= 5) || found.ms.size() >= 300;
  }

  Row row_of(const cases::BenchCase& c, const std::string& name, const Interleaved& found, const char* direction,
             const std::string& kept) const {
    Row row = row_of(c, name, direction, found.type, found.ms);
    row.tflops = found.flops / row.ms / 1e9;
    row.peak = median(found.peaks);
    row.share = median(found.shares);
    row.note = fmt::format("{}; half of the calls between {} and {} of peak", kept,
                           percent(quantile(found.shares, 0.25)), percent(quantile(found.shares, 0.75)));
    return row;
  }

  // The time to build the plan and, by turns with it, the forward that uses it.
  void plan_case(const cases::BenchCase& c) {
    Call call = make_call(c.shape, ElementType::f32, false, 1);
    call.backend = "cpu";
    call.threads = threads_;
    const CallLengths lengths(call);
    const PairCount pairs = count_pairs(call);
    Results results = allocate_results(call, false);
    forward(call, results);
    if (!checked(c.shape.name, call, results)) return;
    Interleaved found{forward_flops(call, pairs.kept), ElementType::f32, threads_};
    std::vector<double> build, parts;
    while (!enough(found)) {
      build.push_back(milliseconds_of([&] {
        anymask_plan_t plan = nullptr;
        check(anymask_plan_create(call.mask.get(), &lengths.value, nullptr, &plan));
        anymask_plan_free(plan);
      }));
      found.sample([&] { forward(call, results); });
      parts.push_back(build.back() / found.ms.back());
    }
    Row plan = row_of(c, c.shape.name, "plan", ElementType::f32, build);
    const Row fwd = row_of(c, c.shape.name, found, "fwd", percent(pairs.share()) + " kept");
    plan.peak = fwd.peak;
    plan.note = fmt::format("{} of its forward ({} to {})", percent(median(parts)), percent(quantile(parts, 0.25)),
                            percent(quantile(parts, 0.75)));
    emit(plan);
    emit(fwd);
  }

  // The time to select, and beside it the forward on what was selected: with a plan made before, and as the first call
  // of a mask, which selects and plans too.
  void topk_case(const cases::BenchCase& c) {
    Call call = make_call(c.shape, ElementType::f32, false, 1);
    call.backend = "cpu";
    call.threads = threads_;
    const CallLengths lengths(call);
    const std::shared_ptr<anymask_mask_s> mask = call.mask;
    const auto selected = [&] {
      anymask_mask_t held = nullptr;
      check(anymask_mask_select(mask.get(), &lengths.value, &held));
      return std::shared_ptr<anymask_mask_s>(held, anymask_mask_free);
    };
    Row select = row_of(c, c.shape.name, "select", ElementType::f32, samples([&] { selected(); }));
    call.mask = selected();
    const PairCount pairs = count_pairs(call);
    Results results = allocate_results(call, false);
    forward(call, results);
    if (!checked(c.shape.name, call, results)) return;
    Row fwd = row_of(c, c.shape.name, "fwd", ElementType::f32, samples([&] { forward(call, results); }));
    const anymask_cache_stats cache = anymask_plan_cache_stats();
    anymask_plan_cache_limit(0);
    Row first = row_of(c, c.shape.name, "new", ElementType::f32, samples([&] {
                         call.mask = selected();
                         forward(call, results);
                       }));
    anymask_plan_cache_limit(cache.limit_bytes);
    set_rate(fwd, forward_flops(call, pairs.kept), peak_now(ElementType::f32, threads_));
    select.peak = first.peak = fwd.peak;
    select.note = percent(select.ms / fwd.ms) + " of its forward";
    fwd.note = percent(pairs.share()) + " kept";
    first.note = "selects, plans, computes";
    emit(select);
    emit(fwd);
    emit(first);
  }

  // What a call costs around its arithmetic: small inputs, a thousand calls a sample.
  void host_case(const cases::BenchCase& c) {
    Call call = make_call(c.shape, ElementType::f32, false, 1);
    call.backend = "cpu";
    call.threads = 1;
    Results results = allocate_results(call, false);
    forward(call, results);
    if (!checked(c.shape.name, call, results)) return;
    constexpr int calls = 1000;
    std::vector<double> ms = samples([&] {
      for (int i = 0; i < calls; ++i) forward(call, results);
    });
    for (double& value : ms) value /= calls;
    Row row = row_of(c, c.shape.name, "host", ElementType::f32, ms);
    row.peak = peak_now(ElementType::f32, 1);
    row.note = fmt::format("{:.2f} us a call", 1000 * row.ms);
    emit(row);
  }

  void emit(const Row& row) {
    rows_.push_back(row);
    if (o_.json) {
      const bool computed = !std::isnan(row.tflops);
      const ordered_json json = {{"suite", row.suite},
                                 {"case", row.name},
                                 {"who", "anymask"},
                                 {"backend", o_.device},
                                 {"direction", row.direction},
                                 {"dtype", row.dtype},
                                 {"ms", row.ms},
                                 {"spread", row.spread},
                                 {"tflops", computed ? ordered_json(row.tflops) : ordered_json()},
                                 {"share", computed ? ordered_json(row.share) : ordered_json()},
                                 {"peak", row.peak},
                                 {"device", device_},
                                 {"versions", versions_},
                                 {"commit", ANYMASK_COMMIT},
                                 {"date", today()}};
      fmt::print("{}\n", json.dump());
    } else {
      if (rows_.size() == 1) {
        const std::string how = cuda_ ? cuda_rates() : fmt::format("{} threads", threads_);
        fmt::print("{}; {}; {}; commit {}; {}\n", device_, how, versions_, ANYMASK_COMMIT, today());
        fmt::print("{:<9} {:<44} {:<5} {:<9} {:>11} {:>7} {:>9} {:>7}\n", "suite", "case", "dir", "dtype", "median",
                   "spread", "GFLOP/s", "of peak");
      }
      const bool computed = !std::isnan(row.tflops);
      fmt::print("{:<9} {:<44} {:<5} {:<9} {:>11} {:>7} {:>9} {:>7}  {}\n", row.suite, row.name, row.direction,
                 row.dtype, human_ms(row.ms), percent(row.spread),
                 computed ? fmt::format("{:.1f}", 1000 * row.tflops) : "-", computed ? percent(row.share) : "-",
                 row.note);
    }
    std::fflush(stdout);
  }

  void draw() const {
    BarRows bars;
    bars.unit = "% of peak";
    bars.peak = 100;
    bars.peak_label = "peak measured in the same process";
    for (const Row& row : rows_) {
      if (std::isnan(row.tflops)) continue;
      Bar bar;
      bar.series = row.direction == "bwd" ? "backward " + row.dtype : "forward " + row.dtype;
      bar.value = 100 * row.share;
      bar.text = fmt::format("{:.0f}%, {:.0f} GFLOP/s", 100 * row.share, 1000 * row.tflops);
      bars.groups.push_back({row.suite + ": " + row.name, {bar}});
    }
    if (bars.groups.empty()) return;  // every case failed its check, which has been said
    write_bars(o_.picture, "anymask on " + device_, bars);
  }

  const BenchOptions& o_;
  const bool cuda_;
  int64_t threads_ = 1;
  std::string device_, versions_;
  std::vector<Row> rows_;
  bool failed_ = false;
};

int run_bench(const BenchOptions& o) {
  if (o.threads < 0 || o.threads > 4096)
    throw UsageError("--threads is " + std::to_string(o.threads) + "; expected 0 to 4096");
  return Bench(o).run();
}

}  // namespace

void add_bench(Args& app) {
  auto o = std::make_shared<BenchOptions>();
  Args command =
      app.command("bench", "time named suites against the peak of this machine",
                  "anymask bench cpu --quick\nanymask bench cpu --suite masks --threads 1\n"
                  "anymask bench cpu --suite forward --filter causal --json\nanymask bench cpu --picture bench.svg\n"
                  "anymask bench cuda --suite masks");
  command.positional("DEVICE", o->device, "what is timed", {"cpu", "cuda"});
  command.choice("--suite", o->suite, suites, "only this suite");
  command.option("--filter", o->filter, "TEXT", "only cases with this in their name");
  command.option("--threads", o->threads, "N", "threads; 0: one per core. The peak is measured with as many");
  command.flag("--quick", o->quick, "fewer repeats: noisier, in a fraction of the time");
  command.option("--picture", o->picture, "FILE", "draw the shares of the peak as bars, .svg or .png");
  command.flag("--json", o->json, "print one JSON object a line");
  command.action([o] { return run_bench(*o); });
}

}  // namespace anymask::cli
