#include "dispatch/dispatch.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "mask/nearest.h"

namespace anymask {
namespace {

std::string device_name(Device device) {
  return device.kind == DeviceKind::cpu ? "the CPU" : cat("CUDA device ", device.index);
}

// The device first: a backend is only asked about tensors it could read.
Support ask(const Backend& backend, const AttentionProblem& problem, Direction direction) {
  const Support support = backend.supports(problem, direction);
  if (!support.yes || backend.device().kind == problem.device.kind) return support;
  return {false, cat("computes on ", backend.device().kind == DeviceKind::cpu ? "the CPU" : "CUDA devices",
                     ", but the tensors are on ", device_name(problem.device),
                     ": copy them, or leave the backend to \"auto\"")};
}

}  // namespace

std::span<const Backend* const> all_backends() {
  static const std::array<const Backend*, 4> all = {&cpu_backend(), &cuda_backend(), &reference_backend(),
                                                    &naive_backend()};
  return all;
}

const Backend* named_backend(const char* operation, std::string_view name) {
  if (name.empty() || name == "auto") return nullptr;
  for (const Backend* backend : all_backends())
    if (name == backend->name()) return backend;
  std::vector<std::string> names = {"auto"};
  for (const Backend* backend : all_backends()) names.emplace_back(backend->name());
  std::string known;
  for (const std::string& one : names) known += cat(known.empty() ? "" : ", ", one);
  const std::string_view shown = name.substr(0, 64);
  const std::string nearest = nearest_name(shown, names);
  fail_invalid(operation, ": backend is \"", shown, "\"; expected one of ", known, ": ",
               nearest.empty() ? std::string("use one of these") : cat("did you mean \"", nearest, "\"?"));
}

Choice choose_backend(const AttentionProblem& problem, const Backend* named, Direction direction) {
  Choice choice;
  const Backend& first = named != nullptr                          ? *named
                         : problem.device.kind == DeviceKind::cuda ? cuda_backend()
                                                                   : cpu_backend();
  Support support = ask(first, problem, direction);
  if (support.yes) {
    choice.backend = &first;
  } else {
    choice.refused.push_back({first.name(), std::move(support.reason)});
  }
  return choice;
}

std::vector<Refusal> refusals(const AttentionProblem& problem, Direction direction) {
  std::vector<Refusal> refused;
  for (const Backend* backend : all_backends()) {
    Support support = ask(*backend, problem, direction);
    if (!support.yes) refused.push_back({backend->name(), std::move(support.reason)});
  }
  return refused;
}

const Backend& require_backend(const char* operation, const AttentionProblem& problem, const Backend* named,
                               Direction direction) {
  const Choice choice = choose_backend(problem, named, direction);
  if (choice.backend != nullptr) return *choice.backend;
  std::string said;
  for (const Refusal& refusal : choice.refused)
    said += cat(said.empty() ? "" : "; ", refusal.backend, ": ", refusal.reason);
  std::string others;
  for (const Backend* backend : all_backends()) {
    const bool asked = std::any_of(choice.refused.begin(), choice.refused.end(),
                                   [&](const Refusal& r) { return std::string_view(r.backend) == backend->name(); });
    if (!asked && ask(*backend, problem, direction).yes)
      others += cat(others.empty() ? "" : ", ", '"', backend->name(), '"');
  }
  fail_unsupported(operation, ": no backend for this call (", said, ")",
                   others.empty() ? "" : cat("; backends that compute it: ", others));
}

}  // namespace anymask
