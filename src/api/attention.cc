// The C functions that compute: check, choose a backend, call it.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <system_error>

#include "api/call.h"
#include "api/host_mask.h"
#include "api/json.h"
#include "api/status.h"
#include "api/text.h"
#include "api/view.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "dispatch/dispatch.h"
#include "plan/tile_source.h"

namespace anymask {
namespace {

// explain and workspace queries look at q, k, v and the options alone.
CallArguments shapes_only(const DLTensor* q, const DLTensor* k, const DLTensor* v, const anymask_options* options,
                          int32_t backward) {
  CallArguments a;
  a.direction = backward != 0 ? Direction::backward : Direction::forward;
  a.shapes_only = true;
  a.q = q, a.k = k, a.v = v, a.options = options;
  return a;
}

// The tile a backend states as its fact "tile": the first two numbers of "64 x 64" or "256 keys x 64 rows". The plan's
// own otherwise.
void read_tile(const std::vector<Fact>& facts, PlanRequest& request) {
  for (const Fact& fact : facts) {
    if (fact.name != "tile") continue;
    std::array<int32_t, 2> size = {0, 0};
    size_t found = 0;
    const char* at = fact.value.data();
    const char* end = at + fact.value.size();
    while (at < end && found < 2) {
      const auto [next, error] = std::from_chars(at, end, size[found]);
      found += error == std::errc();
      at = error == std::errc() ? next : at + 1;
    }
    if (size[0] > 0 && size[1] > 0 && size[1] % 64 == 0) request.tile_m = size[0], request.tile_n = size[1];
  }
}

std::string explain(const CallArguments& arguments) {
  const Call call = check_call(arguments);
  const AttentionProblem& problem = call.problem;
  const Choice choice = choose_backend(problem, call.named, arguments.direction);
  std::vector<Fact> facts;
  if (choice.backend != nullptr) facts = choice.backend->explain(problem, *call.mask, arguments.direction);

  PlanRequest request;
  read_tile(facts, request);
  request.transposed = arguments.direction == Direction::backward;
  const Mask mask = on_host(*call.mask);
  const TileSource source = TileSource::make(mask, problem.sequences, problem.h_q, problem.h_kv, request);
  const PlanStats stats =
      source.planned() ? source.plan()->stats
                       : build_plan(anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv), request).stats;

  Json json;
  json.open('{').key("backend");
  if (choice.backend != nullptr) {
    json.value(choice.backend->name());
  } else {
    json.null();
  }
  json.key("kernel");
  const auto kernel = std::find_if(facts.begin(), facts.end(), [](const Fact& fact) { return fact.name == "kernel"; });
  if (kernel != facts.end()) {
    json.value(kernel->value);
  } else if (choice.backend != nullptr) {  // a backend of one kernel a direction need not name it
    json.value(cat(choice.backend->name(), arguments.direction == Direction::forward ? "_forward" : "_backward"));
  } else {
    json.null();
  }
  json.field("kept_share",
             stats.pairs == 0 ? 0.0 : static_cast<double>(stats.kept_pairs) / static_cast<double>(stats.pairs));
  json.key("tiles").open('{');
  json.field("full", stats.full_tiles).field("partial", stats.partial_tiles).field("empty", stats.empty_tiles);
  json.field("tile_m", int64_t{request.tile_m}).field("tile_n", int64_t{request.tile_n}).close('}');
  json.field("planned", source.planned());
  json.field("plan_bytes", source.planned() ? stats.bytes : int64_t{0});
  json.key("facts").open('{');
  for (const Fact& fact : facts)
    if (fact.name != "kernel") json.field(fact.name, fact.value);
  json.close('}');
  json.key("refused").open('[');
  for (const Refusal& refusal : refusals(problem, arguments.direction))
    json.open('{').field("backend", refusal.backend).field("reason", refusal.reason).close('}');
  json.close(']').close('}');
  return json.text();
}

}  // namespace
}  // namespace anymask

using namespace anymask;

anymask_status anymask_forward(const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                               const DLTensor* lse, const anymask_options* options) {
  return guarded([&] {
    CallArguments a;
    a.q = q, a.k = k, a.v = v, a.out = out, a.lse = lse, a.options = options;
    const Call call = check_call(a);
    const Backend& backend = require_backend(a.operation(), call.problem, call.named, a.direction);
    interruptible(call.interrupted, call.interrupted_context,
                  [&] { backend.forward(call.problem, *call.mask, call.launch); });
  });
}

anymask_status anymask_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                const DLTensor* out, const DLTensor* lse, const DLTensor* dq, const DLTensor* dk,
                                const DLTensor* dv, const anymask_options* options) {
  return guarded([&] {
    CallArguments a;
    a.direction = Direction::backward;
    a.dout = dout, a.q = q, a.k = k, a.v = v, a.out = out, a.lse = lse, a.dq = dq, a.dk = dk, a.dv = dv,
    a.options = options;
    const Call call = check_call(a);
    const Backend& backend = require_backend(a.operation(), call.problem, call.named, a.direction);
    interruptible(call.interrupted, call.interrupted_context,
                  [&] { backend.backward(call.problem, *call.mask, call.launch); });
  });
}

anymask_status anymask_workspace_bytes(const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                       const anymask_options* options, int32_t backward, size_t* out) {
  return guarded([&] {
    size_t& bytes = required("attention workspace", "out", out);
    const CallArguments a = shapes_only(q, k, v, options, backward);
    const Call call = check_call(a);
    bytes = require_backend(a.operation(), call.problem, call.named, a.direction)
                .workspace_bytes(call.problem, *call.mask, a.direction);
  });
}

anymask_status anymask_explain(const DLTensor* q, const DLTensor* k, const DLTensor* v, const anymask_options* options,
                               int32_t backward, char** json) {
  return guarded([&] {
    char*& out = required("explain", "json", json);
    out = give_text(explain(shapes_only(q, k, v, options, backward)));
  });
}
