// Draws docs/masks.md and docs/pictures from the library's registry of masks: a row and a picture for every kind, a
// gallery of them all, and a gallery of the tiles that masks of a few thousand positions touch.
//
//   draw_docs DOCS          writes them
//   draw_docs --check DOCS  says which of them are not what it would write (exit status 1)
#include <anymask/anymask.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/library.h"
#include "cli/picture/picture.h"
#include "tests/picture/drawn.h"

namespace anymask::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kPositions = 16;  // what the registry's examples are written for

// The arrays examples call by name, for 16 positions. An example with another @name gets its array here.
struct ExampleArrays {
  std::vector<uint8_t> packed, map, array;
  std::vector<float> bias;
  std::vector<int64_t> packed_shape{kPositions, kPositions / 8}, map_shape{4, 4}, square{kPositions, kPositions};
  std::vector<DLTensor> tensors;
  std::vector<anymask_named_array> named;

  ExampleArrays() : packed(32), map{1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0}, array(256), bias(256) {
    for (int64_t q = 0; q < kPositions; ++q) {
      for (int64_t kv = 0; kv < kPositions; ++kv) {
        const auto at = static_cast<size_t>(q * kPositions + kv);
        if (kv % (q + 1) == 0)
          packed[at / 8] = static_cast<uint8_t>(packed[at / 8] | 1u << (at % 8));  // the divisors' sieve
        const int64_t from_q = 2 * q - 15, from_kv = 2 * kv - 15, radius = from_q * from_q + from_kv * from_kv;
        array[at] = radius <= 225 && radius >= 81;                     // a ring
        bias[at] = static_cast<float>((q * 7 + kv * 5) % 16) / 8 - 1;  // -1 to 0.875
      }
    }
    const auto add = [this](const char* name, void* data, uint8_t code, uint8_t bits, std::vector<int64_t>& shape) {
      tensors.push_back(
          {data, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), {code, bits, 1}, shape.data(), nullptr, 0});
      named.push_back({name, nullptr, 0});
    };
    add("packed", packed.data(), kDLUInt, 8, packed_shape);
    add("map", map.data(), ANYMASK_DL_BOOL, 8, map_shape);
    add("array", array.data(), ANYMASK_DL_BOOL, 8, square);
    add("bias", bias.data(), kDLFloat, 32, square);
    for (size_t i = 0; i < named.size(); ++i) named[i].tensor = &tensors[i];
  }
  ExampleArrays(const ExampleArrays&) = delete;  // tensors point into this object
  ExampleArrays& operator=(const ExampleArrays&) = delete;
};

MaskPicture draw(const std::string& text, const ExampleArrays& arrays, int64_t s_q, int64_t s_kv, int64_t cells) {
  anymask_mask_t raw = nullptr;
  check(anymask_mask_parse(text.c_str(), arrays.named.data(), static_cast<int64_t>(arrays.named.size()), &raw));
  const MaskHandle mask(raw);
  anymask_lengths lengths{};
  lengths.struct_size = sizeof lengths;
  lengths.s_q = s_q, lengths.s_kv = s_kv;
  PictureOptions options;
  options.max_rows = options.max_cols = cells;
  MaskPicture picture = make_picture(mask.get(), lengths, options);
  picture.title = text;
  return picture;
}

// In a cell of a Markdown table: bars would end it, tags would open.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string arguments_text(const json& arguments) {
  std::string text;
  for (const json& argument : arguments) {
    const auto by_default = argument.value("default", "");
    text += (text.empty() ? "`" : "<br>`") + argument.at("name").get<std::string>() +
            "`: " + escaped(cell(argument.value("doc", "")));
    if (!argument.value("required", true))
      text += by_default.empty() ? " (optional)" : " (default `" + cell(by_default) + "`)";
  }
  return text;
}

std::map<std::string, std::string> draw_all() {
  char* text = nullptr;
  check(anymask_mask_kinds(&text));
  const json kinds = json::parse(take(text));
  const ExampleArrays arrays;
  std::map<std::string, std::string> files;
  std::vector<MaskPicture> gallery;
  std::string rows;
  for (const json& kind : kinds) {
    const auto name = kind.at("name").get<std::string>(), example = kind.at("example").get<std::string>();
    MaskPicture picture = draw(example, arrays, kPositions, kPositions, kPositions);
    picture.tile_q = picture.tile_kv = 0;  // 16 positions are one tile: kept and dropped say more
    files["pictures/" + name + ".svg"] = cells_svg(picture);
    picture.note = name;
    gallery.push_back(std::move(picture));
    rows += "| <img src=\"pictures/" + name + ".svg\" width=\"120\" alt=\"" + name + "\"> | **" + name +
            "**: " + escaped(cell(kind.at("summary"))) + "<br>`" + cell(example) + "` | " +
            escaped(cell(kind.at("keeps"))) + " | " + arguments_text(kind.at("arguments")) + " |\n";
  }
  files["masks.md"] =
      "# Every mask\n\n"
      "A mask says which pairs of a query row `q` and a key `kv` take part: those it keeps. Row `q` of a call stands "
      "at position\n"
      "`p = q + s_kv - s_q` of the whole sequence (with `align=\"top_left\"`, `p = q`). Masks compose: `~` (not) binds "
      "first, then `&` (and),\n"
      "then `|` (or); arguments go by position or by name; arrays are written inline, `[0, 5, 9, 16]`, or called by "
      "`@name`.\n\n"
      "The pictures show the examples at 16 positions, queries downwards, keys to the right, kept pairs dark. "
      "`@packed`, `@map`, `@array` and\n"
      "`@bias` stand for small arrays made up for them. `anymask masks` prints this list, `anymask view` draws any "
      "mask at any length.\n\n"
      "| | mask | keeps `(q, kv)` when | arguments |\n|---|---|---|---|\n" +
      rows +
      "\n![All of them](pictures/gallery.svg)\n\n"
      "What a kernel visits of larger masks, tile by tile: empty tiles do not exist for it, full ones read no mask, "
      "partial ones read bits.\n\n"
      "![Tiles of larger masks](pictures/tiles.svg)\n\n"
      "This page and its pictures are drawn from the library's own list of masks by `scripts/draw_masks.sh`.\n";
  files["pictures/gallery.svg"] = gallery_svg("Every mask, at 16 positions", gallery);
  files["pictures/gallery.png"] = gallery_png("Every mask, at 16 positions", gallery);

  struct Larger {
    const char* name;
    const char* text;
    int64_t s_q, s_kv;
  };
  constexpr Larger kLarger[] = {
      {"causal", "causal", 2048, 2048},
      {"sinks + window", "causal & (window(300, 0) | keys(0, 64))", 2048, 2048},
      {"documents", "causal & documents([0, 300, 420, 900, 1000, 1500, 2048])", 2048, 2048},
      {"prefix-LM", "causal | prefix(600)", 2048, 2048},
      {"candidates", "shared_prefix(1024, [256, 128, 256, 128, 256])", 2048, 2048},
      {"dilated window", "causal & window(700, 0) & stride(3)", 2048, 2048},
      {"image patches", "neighborhood([32, 64], 13)", 2048, 2048},
      {"block diffusion", "block_diffusion(1024, 128)", 2048, 2048},
      {"prefill chunk", "causal", 512, 2048},
      {"100,000 positions", "causal & window(20000, 0) | keys(0, 3000)", 100000, 100000},
  };
  std::vector<MaskPicture> larger;
  for (const Larger& mask : kLarger) {
    larger.push_back(draw(mask.text, arrays, mask.s_q, mask.s_kv, 128));
    larger.back().note = mask.name;
  }
  files["pictures/tiles.svg"] = gallery_svg("The tiles a kernel visits, 64 queries x 64 keys each", larger);
  files["pictures/tiles.png"] = gallery_png("The tiles a kernel visits, 64 queries x 64 keys each", larger);
  return files;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// PNG by its pixels: how they are packed is the matter of the libraries at hand.
bool equal(const std::string& name, const std::string& there, const std::string& here) {
  if (there.empty()) return false;
  if (!name.ends_with(".png")) return there == here;
  const DrawnPng a = read_png(there), b = read_png(here);
  return a.width == b.width && a.height == b.height && a.pixels == b.pixels;
}

int run(const fs::path& docs, bool check_only) {
  int stale = 0;
  const std::map<std::string, std::string> files = draw_all();
  for (const auto& [name, bytes] : files) {
    if (equal(name, read(docs / name), bytes)) continue;
    ++stale;
    if (check_only) {
      std::printf("%s is stale: run scripts/draw_masks.sh\n", (docs / name).c_str());
      continue;
    }
    fs::create_directories((docs / name).parent_path());
    std::ofstream file(docs / name, std::ios::binary);
    if (!(file << bytes).flush()) throw std::runtime_error("cannot write " + (docs / name).string());
    std::printf("%s\n", (docs / name).c_str());
  }
  // A kind that is gone leaves no picture behind. Pictures of examples, of results and of the design are kept by
  // tests/python/test_examples.py, scripts/plot_results.py and hand.
  if (fs::exists(docs / "pictures")) {
    for (const auto& entry : fs::directory_iterator(docs / "pictures")) {
      const std::string name = entry.path().filename().string();
      const bool others = name.starts_with("example-") || name.starts_with("performance") || name == "spine.svg";
      if (others || files.contains("pictures/" + name)) continue;
      ++stale;
      std::printf("%s is drawn by nothing: remove it\n", entry.path().c_str());
    }
  }
  return check_only && stale > 0 ? 1 : 0;
}

}  // namespace
}  // namespace anymask::cli

int main(int argc, char** argv) {
  const bool check_only = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check_only) {
    std::fprintf(stderr, "usage: draw_docs [--check] DOCS\n");
    return 2;
  }
  try {
    return anymask::cli::run(argv[argc - 1], check_only);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "draw_docs: %s\n", error.what());
    return 2;
  }
}
