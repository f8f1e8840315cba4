// Pictures of masks and of measurements: in a terminal, as SVG, as PNG.
//
// A MaskPicture is plain data, made from the tiles a plan really lists, so what is drawn is what a kernel would run.
// One layout (draw_mask.cc, bars.cc) draws on a Canvas (canvas.h), of which SVG and PNG are the two kinds.
#pragma once

#include <anymask/anymask.h>

#include <cstdint>
#include <string>
#include <vector>

namespace anymask::cli {

// What a cell's tiles are: all empty, all full, some of both (`mixed`), or one of them at least PARTIAL.
enum class TileKind : uint8_t { empty, mixed, partial, full };

// One plane of a mask: rows x cols cells, q downwards, keys to the right. Cell (i, j) covers queries [i * cell_q, (i +
// 1) * cell_q) and keys [j * cell_kv, (j + 1) * cell_kv); those of the last row and column may be cut short by the
// plane's edge.
struct MaskPicture {
  std::string title;  // the mask's text
  std::string note;   // which sequence and head; may be empty
  int64_t s_q = 0, s_kv = 0;
  int64_t rows = 0, cols = 0;
  int64_t cell_q = 1, cell_kv = 1;  // pairs a side; aligned to the tiles where that costs less than half the resolution
  std::vector<float> share;         // [rows, cols] kept share, 0 to 1
  std::vector<TileKind> tile;       // [rows, cols] what the cell's tiles are
  int64_t tile_q = 0, tile_kv = 0;  // tile sides along q and keys; 0: tiles are not drawn
  bool transposed = false;          // the tiles are those of dK and dV
  int64_t kept = 0, pairs = 0;      // of this plane
  int64_t full_tiles = 0, partial_tiles = 0, empty_tiles = 0;

  bool elements() const { return cell_q == 1 && cell_kv == 1; }  // each cell is one pair
  double kept_share() const { return pairs == 0 ? 0.0 : static_cast<double>(kept) / static_cast<double>(pairs); }
};

struct PictureOptions {
  int64_t sequence = 0, head = 0;
  int64_t max_rows = 128, max_cols = 128;  // most cells a side; fewer along the shorter side of an oblong plane
  int32_t tile_m = 0, tile_n = 0;          // 0: the CPU kernel's own; tile_n a multiple of 64
  bool transposed = false;                 // tiles of the plan for dK and dV: tile_m along keys
};

// The picture of one plane. Time and memory are the plan's: nothing of s_q x s_kv is held. Throws UsageError.
MaskPicture make_picture(anymask_mask_t mask, const anymask_lengths& lengths, const PictureOptions& options);
// One picture for each distinct plane of `options.sequence`, its `note` naming the heads that use it.
std::vector<MaskPicture> make_head_pictures(anymask_mask_t mask, const anymask_lengths& lengths,
                                            const PictureOptions& options);

// ------------------------------------------------------------- terminal

enum class TextStyle : uint8_t {
  plain,     // ASCII, no colour
  color256,  // half blocks in the 256-colour palette
  truecolor  // half blocks in 24-bit colour
};
// What standard output shows: plain unless color_on_stdout(); 24-bit colour where COLORTERM promises it.
TextStyle stdout_text_style();

// The cells a terminal of that many columns has room for.
struct TextRoom {
  int64_t max_rows, max_cols;
};
TextRoom text_room(TextStyle style, int columns);

// Title, axes, cells, legend and counts. Lines end in \n and are no longer than `columns` (at least 32) if the picture
// has no more cells than text_room().
std::string picture_text(const MaskPicture& picture, TextStyle style, int columns);
// Kept and dropped cells alone, for listings: no tiles, title, axes or legend. A column a cell, two rows a line (plain:
// one).
std::string mask_picture_text(const MaskPicture& picture, TextStyle style);

// ----------------------------------------------------------- SVG and PNG

// Format by the end of the name: .svg or .png; "-" writes SVG to standard output. Files appear whole or not at all.
// Throws UsageError when the name ends otherwise or the file cannot be written; check_picture_path() finds that before
// any work.
void check_picture_path(const std::string& path);
void write_picture(const std::string& path, const MaskPicture& picture);
// Small multiples in rows, each with its own title and kept share, under one title.
void write_gallery(const std::string& path, const std::string& title, const std::vector<MaskPicture>& pictures);

// Horizontal bars in groups.
struct Bar {
  std::string series;  // who: one colour each, in order of first appearance; named in the legend
  double value = 0;    // not negative
  std::string text;    // written at the bar's end; empty: the value
};
struct BarGroup {
  std::string label;  // what all bars of the group measured
  std::vector<Bar> bars;
};
struct BarRows {
  std::string unit;        // of all values, written at the axis: "GFLOP/s"
  double peak = 0;         // a dashed vertical line there; 0: none
  std::string peak_label;  // "FMA peak"
  std::vector<BarGroup> groups;
};
void write_bars(const std::string& path, const std::string& title, const BarRows& rows);

// The same pictures as bytes.
std::string picture_svg(const MaskPicture& picture);
std::string picture_png(const MaskPicture& picture);
std::string cells_svg(const MaskPicture& picture);  // the frame and what is in it alone, for tables
std::string gallery_svg(const std::string& title, const std::vector<MaskPicture>& pictures);
std::string gallery_png(const std::string& title, const std::vector<MaskPicture>& pictures);
std::string bars_svg(const std::string& title, const BarRows& rows);
std::string bars_png(const std::string& title, const BarRows& rows);

}  // namespace anymask::cli
