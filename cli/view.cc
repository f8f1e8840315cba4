// anymask view: a mask and its tiles as a picture, in the terminal, as SVG or PNG, or as JSON.
#include <fmt/core.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/args.h"
#include "cli/commands.h"
#include "cli/mask_input.h"
#include "cli/picture/picture.h"
#include "cli/terminal.h"

namespace anymask::cli {

namespace {

constexpr int64_t kDefaultLength = 16;  // what the examples of `anymask masks` fit
constexpr int64_t kDefaultCells = 128, kMostCells = 512;
constexpr size_t kMostPlanes = 128;

struct ViewOptions {
  std::string text;
  MaskInput mask;
  LengthsInput lengths;
  int64_t sequence = 0, head = 0;
  bool all_heads = false;
  int64_t tile_m = 0, tile_n = 0;
  bool transposed = false, no_tiles = false;
  std::optional<int64_t> size, width;
  std::string out;
  bool plain = false, json = false;
};

int64_t within(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw UsageError(fmt::format("{} is {}; expected {} to {}", option, value, least, most));
  return value;
}

nlohmann::ordered_json as_json(const MaskPicture& p) {
  nlohmann::ordered_json json{
      {"mask", p.title},
      {"note", p.note},
      {"s_q", p.s_q},
      {"s_kv", p.s_kv},
      {"kept", p.kept},
      {"pairs", p.pairs},
      {"kept_share", p.kept_share()},
      {"tile_q", p.tile_q},
      {"tile_kv", p.tile_kv},
      {"transposed", p.transposed},
      {"tiles", {{"full", p.full_tiles}, {"partial", p.partial_tiles}, {"empty", p.empty_tiles}}},
      {"cell_q", p.cell_q},
      {"cell_kv", p.cell_kv}};
  constexpr const char* kNames[] = {"empty", "mixed", "partial", "full"};
  auto share = nlohmann::ordered_json::array(), kind = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < p.rows; ++i) {
    auto shares = nlohmann::ordered_json::array(), kinds = nlohmann::ordered_json::array();
    for (int64_t j = 0; j < p.cols; ++j) {
      const auto at = static_cast<size_t>(i * p.cols + j);
      shares.push_back(p.share[at]);
      kinds.push_back(kNames[static_cast<size_t>(p.tile[at])]);
    }
    share.push_back(std::move(shares));
    kind.push_back(std::move(kinds));
  }
  json["share"] = std::move(share);
  json["cells"] = std::move(kind);
  return json;
}

int run_view(const ViewOptions& o) {
  MaskInput input = o.mask;
  if (!o.text.empty()) {
    if (!input.text.empty()) throw UsageError("the mask is given twice, as MASK and as --mask: use one");
    input.text = o.text;
  }
  if (!o.out.empty()) check_picture_path(o.out);
  if (o.json && o.out == "-")
    throw UsageError("--json and --out - both write to standard output: name a file, or drop one of them");
  if (o.plain && !o.out.empty())
    throw UsageError("--plain is about the terminal and --out writes a file: drop one of them");
  if (o.width && !o.out.empty())
    throw UsageError("--width is about the terminal and --out writes a file: use --size for the number of cells");
  if (o.all_heads && o.head != 0) throw UsageError("--head and --all-heads contradict each other: drop one");

  PictureOptions options;
  options.sequence = o.sequence;
  options.head = o.head;
  options.tile_m = static_cast<int32_t>(within("--tile-m", o.tile_m, 0, std::numeric_limits<int32_t>::max()));
  options.tile_n = static_cast<int32_t>(within("--tile-n", o.tile_n, 0, std::numeric_limits<int32_t>::max()));
  options.transposed = o.transposed;
  options.max_rows = options.max_cols = within("--size", o.size.value_or(kDefaultCells), 1, kMostCells);
  const auto columns = static_cast<int>(o.width ? within("--width", *o.width, 32, 1000) : terminal_columns());
  const TextStyle style = o.plain ? TextStyle::plain : stdout_text_style();
  const bool print = o.out.empty() && !o.json;
  if (print) {
    const TextRoom room = text_room(style, columns);
    options.max_rows = o.size ? std::min(*o.size, room.max_rows) : room.max_rows;
    options.max_cols = o.size ? std::min(*o.size, room.max_cols) : room.max_cols;
  }

  Lengths lengths;
  load_lengths(o.lengths, kDefaultLength, lengths);
  const std::vector<Tensor> arrays = load_mask_arrays(input);
  const MaskHandle mask = load_mask(input, arrays);
  std::vector<MaskPicture> pictures;
  if (o.all_heads) {
    pictures = make_head_pictures(mask.get(), lengths.value, options);
    if (pictures.size() > kMostPlanes) {
      throw UsageError(
          fmt::format("--all-heads would draw {} different planes; expected at most {}: pick one by --head",
                      pictures.size(), kMostPlanes));
    }
  } else {
    pictures.push_back(make_picture(mask.get(), lengths.value, options));
  }
  if (o.no_tiles) {
    for (MaskPicture& picture : pictures) picture.tile_q = picture.tile_kv = 0;
  }

  if (!o.out.empty()) {
    if (pictures.size() == 1) {
      write_picture(o.out, pictures[0]);
    } else {
      write_gallery(o.out, pictures[0].title, pictures);
    }
  }
  if (o.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const MaskPicture& picture : pictures) json.push_back(as_json(picture));
    fmt::print("{}\n", (o.all_heads ? json : json[0]).dump());
  } else if (print) {
    for (size_t i = 0; i < pictures.size(); ++i)
      fmt::print("{}{}", i == 0 ? "" : "\n", picture_text(pictures[i], style, columns));
  } else if (o.out != "-" && pictures.size() > 1) {
    fmt::print("{}: {} different planes\n", o.out, pictures.size());
  } else if (o.out != "-") {
    const MaskPicture& p = pictures[0];
    fmt::print("{}: keeps {}; {} full, {} partial, {} empty tiles\n", o.out, percent(p.kept_share()),
               human_count(p.full_tiles), human_count(p.partial_tiles), human_count(p.empty_tiles));
  }
  return 0;
}

}  // namespace

void add_view(Args& app) {
  auto o = std::make_shared<ViewOptions>();
  Args view =
      app.command("view", "draw a mask and its tiles: in the terminal, as SVG or PNG",
                  "anymask view causal\n"
                  "anymask view \"causal & window(3, 0) | keys(0, 2)\" --seq 24\n"
                  "anymask view \"causal & documents(@cu)\" --array cu=cu.npy --seq 8192 --out mask.png\n"
                  "anymask view \"per_head([causal, window(8, 0)])\" --seq 64 --heads 2 --all-heads --out heads.svg");
  view.positional("MASK", o->text, "what is kept, as with --mask");
  add_mask_options(view, o->mask, true);
  add_lengths_options(view, o->lengths);
  view.section("Which plane");
  view.option("--sequence", o->sequence, "N", "batch entry or packed sequence to draw (0)");
  view.option("--head", o->head, "N", "query head to draw (0)");
  view.flag("--all-heads", o->all_heads, "one picture for each different plane among the heads");
  view.section("Tiles");
  view.option("--tile-m", o->tile_m, "N", "rows of a tile (the CPU kernel's)");
  view.option("--tile-n", o->tile_n, "N", "columns of a tile, a multiple of 64 (the CPU kernel's)");
  view.flag("--transposed", o->transposed, "the tiles of the backward's plan for dK and dV: --tile-m runs along keys");
  view.flag("--no-tiles", o->no_tiles, "kept and dropped alone");
  view.section("Picture");
  view.option("--out", o->out, "FILE",
              "write FILE.svg or FILE.png, or SVG to standard output (-), instead of printing");
  view.option("--size", o->size, "N", "most cells a side, 1 to 512 (128; in a terminal what fits)");
  view.option("--width", o->width, "COLUMNS", "columns of the terminal, 32 to 1000 (its own)");
  view.flag("--plain", o->plain, "letters instead of colours");
  view.flag("--json", o->json, "cells, shares and counts as JSON");
  view.action([o] { return run_view(*o); });
}

}  // namespace anymask::cli
