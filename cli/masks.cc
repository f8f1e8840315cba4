// `anymask masks`: every kind of mask with its arguments, one line and a small picture each. All of it comes from the
// library's registry.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/library.h"
#include "cli/nearest.h"
#include "cli/picture/picture.h"
#include "cli/terminal.h"

namespace anymask::cli {

namespace {

using nlohmann::json;

constexpr int64_t picture_positions = 16;  // the registry's examples are written for so many

struct MasksOptions {
  std::string kind;
  bool json = false;
};

// window(left, right[, align])
std::string signature(const json& kind) {
  std::string text = kind["name"].get<std::string>();
  std::string required, optional;
  for (const json& argument : kind["arguments"]) {
    const auto name = argument["name"].get<std::string>();
    if (argument.value("required", true)) {
      required += (required.empty() ? "" : ", ") + name;
    } else {
      optional += (required.empty() && optional.empty() ? "" : ", ") + name;
    }
  }
  if (required.empty() && optional.empty()) return text;
  return text + "(" + required + (optional.empty() ? "" : "[" + optional + "]") + ")";
}

// The picture of an example that needs no @array; "" for others.
std::string example_picture(const std::string& example) {
  if (example.empty() || example.find('@') != std::string::npos) return "";
  anymask_mask_t raw = nullptr;
  check(anymask_mask_parse(example.c_str(), nullptr, 0, &raw));
  const MaskHandle mask(raw);
  anymask_lengths lengths{};
  lengths.struct_size = sizeof(lengths);
  lengths.batch = 1;
  lengths.s_q = lengths.s_kv = picture_positions;
  lengths.h_q = lengths.h_kv = 1;
  PictureOptions options;
  options.max_rows = options.max_cols = picture_positions;
  return mask_picture_text(make_picture(mask.get(), lengths, options), stdout_text_style());
}

std::string indented(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += "    " + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return result;
}

void print_kind(const json& kind, bool detail) {
  const auto example = kind.value("example", "");
  fmt::print("{}\n  {}\n  keeps (q, kv) when {}\n", paint(signature(kind), "1", color_on_stdout()),
             kind.value("summary", ""), kind.value("keeps", ""));
  if (detail) {
    for (const json& argument : kind["arguments"]) {
      const auto by_default = argument.value("default", "");
      const std::string note = argument.value("required", true) ? ""
                               : by_default.empty()             ? ", optional"
                                                                : ", default " + by_default;
      fmt::print("  {:<10} {} ({}{})\n", argument.value("name", ""), argument.value("doc", ""),
                 argument.value("type", ""), note);
    }
  }
  if (!example.empty()) fmt::print("  example: {}\n{}", example, indented(example_picture(example)));
  fmt::print("\n");
}

int run_masks(const MasksOptions& o) {
  char* text = nullptr;
  check(anymask_mask_kinds(&text));
  json kinds = json::parse(take(text));
  if (!o.kind.empty()) {
    std::vector<std::string> names;
    json found = json::array();
    for (const json& kind : kinds) {
      names.push_back(kind["name"].get<std::string>());
      if (names.back() == o.kind) found.push_back(kind);
    }
    if (found.empty()) {
      throw UsageError("no kind of mask is called \"" + o.kind + "\": `anymask masks` lists them" +
                       did_you_mean(o.kind, names));
    }
    kinds = found;
  }
  if (o.json) {
    fmt::print("{}\n", kinds.dump());
    return 0;
  }
  for (const json& kind : kinds) print_kind(kind, !o.kind.empty());
  if (o.kind.empty()) {
    fmt::print(
        "Masks compose: ~ (not) binds first, then & (and), then |. Arrays are given inline, [0, 4, 9], or as @name "
        "with --array name=file.npy.\n"
        "`anymask masks KIND` tells a kind's arguments; `anymask view \"causal & window(3, 0)\" --seq 16` draws any "
        "mask.\n");
  }
  return 0;
}

}  // namespace

void add_masks(Args& app) {
  auto o = std::make_shared<MasksOptions>();
  Args command = app.command("masks", "every kind of mask, with its arguments and a small picture",
                             "anymask masks\nanymask masks tree\nanymask masks --json");
  command.positional("KIND", o->kind, "tell this kind in detail");
  command.flag("--json", o->json, "print a JSON array");
  command.action([o] { return run_masks(*o); });
}

}  // namespace anymask::cli
