// `anymask explain`: the plan, the kernel chosen and why, what was refused, what is predicted against dense.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/explain_data.h"
#include "cli/problem_input.h"
#include "cli/terminal.h"

namespace anymask::cli {

namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "none" : value.dump();
}

struct ExplainOptions {
  ProblemInput problem;
  bool backward = false, json = false;
};

void print_direction(const Explanation& e, bool backward) {
  const double tiles = static_cast<double>(e.full_tiles + e.partial_tiles + e.empty_tiles);
  const auto share = [&](int64_t n) { return tiles == 0 ? std::string("-") : percent(static_cast<double>(n) / tiles); };
  fmt::print("{}\n", paint(backward ? "backward" : "forward", "1", color_on_stdout()));
  const auto line = [](const std::string& name, const std::string& value) { fmt::print("  {:<22} {}\n", name, value); };
  line("backend", e.backend);
  line("kernel", e.kernel);
  line("kept", percent(e.kept_share) + " of all pairs");
  line("plan", e.planned ? human_bytes(e.plan_bytes) : "none needed: each row keeps one interval");
  line("full tiles", human_count(e.full_tiles) + " (" + share(e.full_tiles) + "), read no mask");
  line("partial tiles", human_count(e.partial_tiles) + " (" + share(e.partial_tiles) + "), read one bit tile each");
  line("empty tiles", human_count(e.empty_tiles) + " (" + share(e.empty_tiles) + "), never visited");
  if (tiles > 0)
    line("predicted", fmt::format("{:.3g} of the dense time, by tiles visited",
                                  static_cast<double>(e.full_tiles + e.partial_tiles) / tiles));
  for (const auto& [name, value] : e.facts) line(name, value);
  for (const auto& [backend, reason] : e.refused) line("refused: " + backend, reason);
}

int run_explain(const ExplainOptions& o) {
  const Call call = load_call(o.problem);
  const bool backward = o.backward || call.backward();
  if (o.json) {
    json all = {{"forward", json::parse(explain_json(call, false))}};
    if (backward) all["backward"] = json::parse(explain_json(call, true));
    fmt::print("{}\n", all.dump());
    return 0;
  }
  const Explanation of_forward = explain(call, false);
  const Explanation of_backward = backward ? explain(call, true) : Explanation();
  char* text = nullptr;
  check(anymask_mask_text(call.mask.get(), &text));
  fmt::print("mask {}\nq {}, k {}, v {}, {}\n", take(text), call.q.shape_text(), call.k.shape_text(),
             call.v.shape_text(), name_of(call.q.type));
  print_direction(of_forward, false);
  if (backward) print_direction(of_backward, true);
  return 0;
}

}  // namespace

Explanation explain(const Call& call, bool backward) {
  const json said = json::parse(explain_json(call, backward));
  Explanation e;
  e.backend = text_of(said.value("backend", json()));  // null: nothing computes this call, and `refused` says why
  e.kernel = text_of(said.value("kernel", json()));
  e.kept_share = said.value("kept_share", 0.0);
  e.planned = said.value("planned", false);
  e.plan_bytes = said.value("plan_bytes", int64_t{0});
  if (said.contains("tiles") && said["tiles"].is_object()) {
    const json& tiles = said["tiles"];
    e.full_tiles = tiles.value("full", int64_t{0});
    e.partial_tiles = tiles.value("partial", int64_t{0});
    e.empty_tiles = tiles.value("empty", int64_t{0});
  }
  const json facts = said.value("facts", json::object()), refused = said.value("refused", json::array());
  for (const auto& [name, value] : facts.items()) e.facts.push_back({name, text_of(value)});
  for (const json& one : refused) e.refused.push_back({one.value("backend", ""), one.value("reason", "")});
  return e;
}

void add_explain(Args& app) {
  auto o = std::make_shared<ExplainOptions>();
  Args command = app.command("explain", "what would run and why: tiles, plan, kernel, refusals",
                             "anymask explain --shape 1,8192,8192,9,3,64 --mask \"causal & window(1023, 0)\"\n"
                             "anymask explain --input layer.safetensors --mask \"causal & documents(@cu)\" --backward\n"
                             "anymask explain --shape 1,4096,4096,8,8,128 --dtype bf16 --backend cuda --json");
  add_problem_options(command, o->problem, true);
  command.flag("--backward", o->backward, "explain the backward too");
  command.flag("--json", o->json, "print one JSON object");
  command.action([o] { return run_explain(*o); });
}

}  // namespace anymask::cli
