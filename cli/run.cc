// `anymask run`: attention on tensors from files, forward and (given dout) backward; checked, timed, written.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/check.h"
#include "cli/commands.h"
#include "cli/explain_data.h"
#include "cli/io/file.h"
#include "cli/io/npy.h"
#include "cli/io/safetensors.h"
#include "cli/problem_input.h"
#include "cli/terminal.h"
#include "cli/timing.h"

namespace anymask::cli {

namespace {

using nlohmann::ordered_json;

struct RunOptions {
  ProblemInput problem;
  std::string out;
  int64_t repeat = 1;
  bool check = false, compare_dense = false, json = false;
};

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Where the results go: declared before anything is computed, filled at the end.
class Destination {
 public:
  Destination(const std::string& out, const Results& results) : out_(out) {
    if (out.empty()) return;
    if (ends_with(out, ".safetensors")) {
      paths_.push_back(out);
    } else {
      files_.make_directory(out);
      for (const Tensor* tensor : results.all())
        paths_.push_back(out + (out.back() == '/' ? "" : "/") + tensor->name + ".npy");
    }
    for (const std::string& path : paths_) files_.open(path);
  }
  void write(const Results& results) {
    const std::vector<const Tensor*> tensors = results.all();
    if (out_.empty()) return;
    if (ends_with(out_, ".safetensors")) {
      std::vector<Tensor> list;
      for (const Tensor* tensor : tensors) list.push_back(*tensor);
      write_safetensors(files_, 0, list);
    } else {
      for (size_t i = 0; i < tensors.size(); ++i) write_npy(files_, static_cast<int>(i), *tensors[i]);
    }
    files_.commit();
  }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::string out_;
  OutputFiles files_;
  std::vector<std::string> paths_;
};

struct Measured {
  double ms = 0, gflops = 0, dense_ms = 0;
};

// Once, or the median of `repeat` calls after a warm-up.
double timed(int64_t repeat, Progress& progress, const std::function<void()>& work) {
  if (repeat > 1) work();
  std::vector<double> ms;
  for (int64_t i = 0; i < repeat; ++i) {
    progress.update(i);
    ms.push_back(milliseconds_of(work));
  }
  return median(ms);
}

ordered_json measured_json(const Measured& m, bool dense) {
  ordered_json json = {{"ms", m.ms}, {"gflops", m.gflops}};
  if (dense) json["dense_ms"] = m.dense_ms;
  return json;
}

void print_measured(const char* what, const Measured& m, bool dense, int64_t repeat) {
  fmt::print("{:<10} {}{}, {:.1f} GFLOP/s on kept work", what, human_ms(m.ms),
             repeat > 1 ? fmt::format(" (median of {})", repeat) : "", m.gflops);
  if (dense) fmt::print("; without the mask {} ({:.2f} times as long)", human_ms(m.dense_ms), m.dense_ms / m.ms);
  fmt::print("\n");
}

int run(const RunOptions& o) {
  if (o.repeat < 1) throw UsageError("--repeat is " + std::to_string(o.repeat) + "; expected a number >= 1");
  const Call call = load_call(o.problem);
  const Explanation explanation = explain(call, false);
  if (call.backward()) explain(call, true);
  const PairCount pairs = count_pairs(call);
  Results results = allocate_results(call, call.backward());
  Destination destination(o.out, results);
  Runner runner(call, results);

  Measured fwd, bwd;
  {
    Progress progress("attention", o.repeat);
    fwd.ms = timed(o.repeat, progress, [&] { runner.forward(), runner.wait(); });
    fwd.gflops = forward_flops(call, pairs.kept) / fwd.ms / 1e6;
  }
  if (call.backward()) {
    Progress progress("backward", o.repeat);
    bwd.ms = timed(o.repeat, progress, [&] { runner.backward(), runner.wait(); });
    bwd.gflops = backward_flops(call, pairs.kept) / bwd.ms / 1e6;
  }
  if (o.compare_dense) {
    Call dense = call;
    dense.mask = nullptr;
    Results unmasked = allocate_results(dense, call.backward());
    Runner whole(dense, unmasked);
    Progress progress("without the mask", o.repeat);
    fwd.dense_ms = timed(o.repeat, progress, [&] { whole.forward(), whole.wait(); });
    if (call.backward()) bwd.dense_ms = timed(o.repeat, progress, [&] { whole.backward(), whole.wait(); });
  }
  runner.finish();
  CheckReport report;
  if (o.check) {
    Progress progress("checking against the reference", 1);
    report = check_results(call, results);
  }
  destination.write(results);

  char* mask_text = nullptr;
  check(anymask_mask_text(call.mask.get(), &mask_text));
  const std::string mask = take(mask_text);
  if (o.json) {
    ordered_json json = {{"mask", mask},
                         {"q", call.q.shape},
                         {"k", call.k.shape},
                         {"v", call.v.shape},
                         {"dtype", name_of(call.q.type)},
                         {"backend", explanation.backend},
                         {"kernel", explanation.kernel},
                         {"kept", pairs.kept},
                         {"pairs", pairs.pairs},
                         {"kept_share", pairs.share()},
                         {"planned", explanation.planned},
                         {"tiles",
                          {{"full", explanation.full_tiles},
                           {"partial", explanation.partial_tiles},
                           {"empty", explanation.empty_tiles}}},
                         {"repeat", o.repeat},
                         {"forward", measured_json(fwd, o.compare_dense)}};
    if (call.backward()) json["backward"] = measured_json(bwd, o.compare_dense);
    if (o.check) {
      json["check"] = {{"ok", report.ok()}, {"scope", report.scope}, {"tensors", ordered_json::array()}};
      for (const TensorError& t : report.tensors) {
        json["check"]["tensors"].push_back(
            {{"name", t.name}, {"error", t.error}, {"bound", t.bound}, {"naive_error", t.naive_error}, {"ok", t.ok()}});
      }
    }
    json["files"] = destination.paths();
    fmt::print("{}\n", json.dump());
  } else {
    const bool color = color_on_stdout();
    fmt::print("{:<10} {}\n", "mask", mask);
    fmt::print("{:<10} q {}, k {}, v {}, {}, {}\n", "call", call.q.shape_text(), call.k.shape_text(),
               call.v.shape_text(), name_of(call.q.type), explanation.backend);
    fmt::print("{:<10} {} of {} pairs ({})\n", "kept", human_count(pairs.kept), human_count(pairs.pairs),
               percent(pairs.share()));
    fmt::print("{:<10} {} full, {} partial, {} empty{}\n", "tiles", human_count(explanation.full_tiles),
               human_count(explanation.partial_tiles), human_count(explanation.empty_tiles),
               explanation.planned ? "" : " (no plan needed: each row keeps one interval)");
    print_measured("forward", fwd, o.compare_dense, o.repeat);
    if (call.backward()) print_measured("backward", bwd, o.compare_dense, o.repeat);
    for (const TensorError& t : report.tensors) {
      fmt::print("{:<10} {:<7} largest error {:.2e}, bound {:.2e} (2 x naive {:.2e} + constant) {}\n", "check", t.name,
                 t.error, t.bound, t.naive_error, t.ok() ? paint("ok", "32", color) : paint("FAILED", "31", color));
    }
    if (o.check)
      fmt::print("{:<10} {} against the double-precision reference: {}\n", "checked", report.scope,
                 report.ok() ? "ok" : "FAILED");
    if (o.out.empty()) {
      fmt::print("{:<10} nothing (give --out)\n", "wrote");
    } else {
      std::string list;
      for (const std::string& path : destination.paths()) list += (list.empty() ? "" : ", ") + path;
      fmt::print("{:<10} {}\n", "wrote", list);
    }
  }
  if (o.check && !report.ok()) {
    const TensorError& t = report.worst();
    std::fflush(stdout);
    std::fputs(
        fmt::format("anymask run: check failed: {} is off by {:.3g}; the bound is {:.3g}\n", t.name, t.error, t.bound)
            .c_str(),
        stderr);
    return 1;
  }
  return 0;
}

}  // namespace

void add_run(Args& app) {
  auto o = std::make_shared<RunOptions>();
  Args command = app.command(
      "run", "compute attention on tensors from files; check it, time it, write the results",
      "anymask run --q q.npy --k k.npy --v v.npy --mask causal --out result --check\n"
      "anymask run --q q.npy --k k.npy --v v.npy --mask \"causal & documents(@cu)\" --array cu=cu.npy --out result\n"
      "anymask run --input layer.safetensors --mask \"causal & window(1023, 0)\" --dtype bf16 --out "
      "result.safetensors\n"
      "anymask run --input layer.safetensors --dout dout.npy --mask causal --repeat 5 --compare-dense --json");
  add_problem_options(command, o->problem, false);
  command.section("Results");
  command.option("--out", o->out, "DIR",
                 "write out, lse (and dq, dk, dv, dbias, dsinks) as .npy files in DIR, or into one file if the name "
                 "ends in .safetensors. .npy knows no bf16: "
                 "such results are widened to float32 there, and exact in .safetensors");
  command.flag("--check", o->check,
               "compare with the double-precision reference; exit status 1 beyond the bound. Big inputs are checked on "
               "sampled rows");
  command.option("--repeat", o->repeat, "N",
                 "time N calls after a warm-up and print the median (1, without a warm-up)");
  command.flag("--compare-dense", o->compare_dense, "time the same call without the mask too");
  command.flag("--json", o->json, "print one JSON object");
  command.action([o] { return run(*o); });
}

}  // namespace anymask::cli
