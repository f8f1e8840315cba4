// The layout of a mask's picture and of a gallery of them:
//
//   title (the mask's text, up to three lines)
//   what it keeps; tiles by kind; what a cell is
//        q  | keys: 0      1024     2048
//        0  +---------------------------+
//           |  cells, tile grid         |
//      4096 +---------------------------+
//   legend
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "cli/picture/canvas.h"
#include "cli/picture/label.h"
#include "cli/terminal.h"

namespace anymask::cli {

namespace {

constexpr double kMargin = 18, kPlotSide = 640, kPanelSide = 168, kLeastSide = 80;
constexpr double kGridFrom = 7;      // pixels a pair, or a tile, must have for lines between them to help
constexpr double kLeastWidth = 440;  // of a whole picture: room for its words

// Where positions of a plane lie on the canvas.
struct Plot {
  double x, y, width, height;
  double at_key(const MaskPicture& p, int64_t key) const {
    return x + width * static_cast<double>(key) / static_cast<double>(p.s_kv);
  }
  double at_query(const MaskPicture& p, int64_t query) const {
    return y + height * static_cast<double>(query) / static_cast<double>(p.s_q);
  }
};

// The plane's own proportions, but neither side below an eighth of the other. Cells of two units or more get a whole
// number of half units, which are PNG's pixels: all come out alike.
std::pair<double, double> plot_size(const MaskPicture& p, double side) {
  if (p.rows * p.cols == 0) return {side, std::max(side / 4, kLeastSide)};
  const auto q = static_cast<double>(p.s_q), kv = static_cast<double>(p.s_kv), longest = std::max(q, kv);
  const double cell = side * static_cast<double>(kv >= q ? p.cell_kv : p.cell_q) / longest;
  const double scale = cell >= 2 ? std::floor(2 * cell) / (2 * cell) : 1;
  return {scale * side * std::max(kv / longest, 0.125), scale * side * std::max(q / longest, 0.125)};
}

// Equal neighbours merged: runs along a row, then equal runs of rows below. One list of boxes a colour.
std::map<Rgb, std::vector<Box>> merged_cells(const MaskPicture& p, const Plot& plot) {
  struct Run {
    int64_t begin, end;  // columns
    Rgb color;
    int64_t row;  // first row of the run
    bool same(const Run& other) const { return begin == other.begin && end == other.end && color == other.color; }
  };
  std::map<Rgb, std::vector<Box>> boxes;
  const auto key = [&](int64_t col) { return plot.at_key(p, std::min(col * p.cell_kv, p.s_kv)); };
  const auto query = [&](int64_t row) { return plot.at_query(p, std::min(row * p.cell_q, p.s_q)); };
  const auto emit = [&](const Run& run, int64_t end_row) {
    boxes[run.color].push_back(
        {key(run.begin), query(run.row), key(run.end) - key(run.begin), query(end_row) - query(run.row)});
  };
  std::vector<Run> open;  // runs that may go on in the next row, ascending
  for (int64_t row = 0; row < p.rows; ++row) {
    std::vector<Run> here;
    for (int64_t col = 0; col < p.cols; ++col) {
      const Rgb color = cell_color(p, row, col);
      if (!here.empty() && here.back().color == color) {
        here.back().end = col + 1;
      } else {
        here.push_back({col, col + 1, color, row});
      }
    }
    auto old = open.begin();
    for (Run& run : here) {
      while (old != open.end() && old->begin < run.begin) emit(*old++, row);
      if (old != open.end() && old->same(run)) run.row = (old++)->row;
    }
    while (old != open.end()) emit(*old++, row);
    open = std::move(here);
  }
  for (const Run& run : open) emit(run, p.rows);
  return boxes;
}

// Lines between positions `step` apart, inside the plot, where they leave room between them both ways.
void draw_grid(Canvas& canvas, const MaskPicture& p, const Plot& plot, int64_t step_q, int64_t step_kv, Rgb color) {
  const double pitch_q = plot.height * static_cast<double>(step_q) / static_cast<double>(p.s_q);
  const double pitch_kv = plot.width * static_cast<double>(step_kv) / static_cast<double>(p.s_kv);
  if (std::min(pitch_q, pitch_kv) < kGridFrom) return;
  for (int64_t q = step_q; q < p.s_q; q += step_q) {
    canvas.line(plot.x, plot.at_query(p, q), plot.x + plot.width, plot.at_query(p, q), 1, color);
  }
  for (int64_t kv = step_kv; kv < p.s_kv; kv += step_kv) {
    canvas.line(plot.at_key(p, kv), plot.y, plot.at_key(p, kv), plot.y + plot.height, 1, color);
  }
}

void draw_frame(Canvas& canvas, const Plot& plot) {
  const double right = plot.x + plot.width, bottom = plot.y + plot.height;
  canvas.line(plot.x - 0.5, plot.y - 0.5, right + 0.5, plot.y - 0.5, 1, kFrame);
  canvas.line(plot.x - 0.5, bottom + 0.5, right + 0.5, bottom + 0.5, 1, kFrame);
  canvas.line(plot.x - 0.5, plot.y - 0.5, plot.x - 0.5, bottom + 0.5, 1, kFrame);
  canvas.line(right + 0.5, plot.y - 0.5, right + 0.5, bottom + 0.5, 1, kFrame);
}

void draw_cells(Canvas& canvas, const MaskPicture& p, const Plot& plot) {
  if (p.rows * p.cols == 0) {
    canvas.boxes({{plot.x, plot.y, plot.width, plot.height}}, kEmpty);
    const auto lines = wrap(nothing_text(p), static_cast<int64_t>(plot.width / advance_of(Letters::small)) - 2, 2);
    double y = plot.y + plot.height / 2 + 4 - (static_cast<double>(lines.size()) - 1) * line_of(Letters::small) / 2;
    for (const std::string& line : lines) {
      canvas.text(plot.x + plot.width / 2, y, line, Letters::small, Anchor::middle, kInk);
      y += line_of(Letters::small);
    }
  } else {
    for (const auto& [color, boxes] : merged_cells(p, plot)) canvas.boxes(boxes, color);
    if (p.elements()) draw_grid(canvas, p, plot, 1, 1, kPaper);
    if (p.cell_q <= p.tile_q && p.cell_kv <= p.tile_kv) draw_grid(canvas, p, plot, p.tile_q, p.tile_kv, kGrid);
  }
  draw_frame(canvas, plot);
}

// Pairs are labelled at their middle, edges where they are.
void draw_axes(Canvas& canvas, const MaskPicture& p, const Plot& plot) {
  if (p.rows * p.cols == 0) return;
  const double letter = advance_of(Letters::small);
  canvas.text(plot.x - 10, plot.y - 22, "q", Letters::small, Anchor::right, kFaintInk);
  canvas.text(plot.x, plot.y - 22, "keys", Letters::small, Anchor::left, kFaintInk);
  const double middle_q = p.cell_q == 1 ? plot.height / static_cast<double>(p.s_q) / 2 : 0;
  const double middle_kv = p.cell_kv == 1 ? plot.width / static_cast<double>(p.s_kv) / 2 : 0;
  const double label = static_cast<double>(text_width(std::to_string(p.s_kv))) * letter;
  for (const int64_t kv : axis_ticks(p.s_kv, p.cell_kv == 1, static_cast<int64_t>(plot.width / (label + 3 * letter)))) {
    const double x = plot.at_key(p, kv) + middle_kv;
    canvas.line(x, plot.y - 5, x, plot.y - 1, 1, kFrame);
    canvas.text(x, plot.y - 8, std::to_string(kv), Letters::small, Anchor::middle, kInk);
  }
  for (const int64_t q :
       axis_ticks(p.s_q, p.cell_q == 1, static_cast<int64_t>(plot.height / (2.2 * line_of(Letters::small))))) {
    const double y = plot.at_query(p, q) + middle_q;
    canvas.line(plot.x - 5, y, plot.x - 1, y, 1, kFrame);
    canvas.text(plot.x - 8, y + 3.5, std::to_string(q), Letters::small, Anchor::right, kInk);
  }
}

struct Entry {
  std::string name;
  std::vector<Rgb> swatch;  // more than one: a gradient
};

std::vector<Entry> legend_of(const std::vector<MaskPicture>& pictures) {
  bool tiles = false, plain = false, elements = false, shaded = false, mixed = false, kinds[4] = {};
  for (const MaskPicture& p : pictures) {
    (p.tile_q > 0 ? tiles : plain) = true;
    (p.elements() ? elements : shaded) = true;
    for (const TileKind kind : p.tile) kinds[static_cast<size_t>(kind)] = true;
  }
  const auto gradient = [](Rgb from, Rgb to) {
    std::vector<Rgb> colors;
    for (int i = 1; i < 8; ++i) colors.push_back(blend(from, to, static_cast<float>(i) / 8));
    return colors;
  };
  std::vector<Entry> entries;
  mixed = kinds[static_cast<size_t>(TileKind::mixed)];
  if (plain) {
    entries.push_back({"kept", {kFull}});
    if (shaded) entries.push_back({"in part", gradient(kEmpty, kFull)});
    entries.push_back({"dropped", {kEmpty}});
  }
  if (tiles) {
    if (kinds[static_cast<size_t>(TileKind::full)]) entries.push_back({"full tile", {kFull}});
    if (kinds[static_cast<size_t>(TileKind::partial)]) {
      if (elements)
        entries.push_back({"partial tile: kept", {kPartialKept}}),
            entries.push_back({"partial tile: dropped", {kPartialDropped}});
      if (shaded) entries.push_back({"partial tile, 0 to 100% kept", gradient(kPartialDropped, kPartialKept)});
    }
    if (mixed) entries.push_back({"full and empty tiles", gradient(kEmpty, kFull)});
    if (kinds[static_cast<size_t>(TileKind::empty)]) entries.push_back({"empty tile", {kEmpty}});
  }
  return entries;
}

constexpr double kSwatch = 12;

double entry_width(const Entry& entry) {
  const double swatch = entry.swatch.size() == 1 ? kSwatch : kSwatch / 2 * static_cast<double>(entry.swatch.size());
  return swatch + 6 + static_cast<double>(text_width(entry.name)) * advance_of(Letters::small) + 18;
}

// Entries side by side, in as many lines as they need. Draws only where there is a canvas; returns the height.
double draw_legend(Canvas* canvas, const std::vector<Entry>& entries, double x, double y, double width) {
  double at = x, line = y;
  for (const Entry& entry : entries) {
    if (at > x && at + entry_width(entry) - 18 > x + width) at = x, line += line_of(Letters::small) + 4;
    if (canvas) {
      const double step = entry.swatch.size() == 1 ? kSwatch : kSwatch / 2;
      double left = at;
      for (const Rgb color : entry.swatch) canvas->boxes({{left, line, step, kSwatch}}, color), left += step;
      canvas->line(at, line, left, line, 0.5, kFrame),
          canvas->line(at, line + kSwatch, left, line + kSwatch, 0.5, kFrame);
      canvas->line(at, line, at, line + kSwatch, 0.5, kFrame),
          canvas->line(left, line, left, line + kSwatch, 0.5, kFrame);
      canvas->text(left + 6, line + 10, entry.name, Letters::small, Anchor::left, kInk);
    }
    at += entry_width(entry);
  }
  return entries.empty() ? 0 : line + line_of(Letters::small) + 4 - y;
}

struct Words {
  std::string text;
  Letters letters;
  Rgb color;
};

// Small letters keep a little more distance from the large ones above them.
double line_height(const std::vector<Words>& lines, size_t i) {
  const bool below_large = i > 0 && lines[i - 1].letters == Letters::large && lines[i].letters == Letters::small;
  return line_of(lines[i].letters) + (below_large ? 3 : 0);
}

double height_of(const std::vector<Words>& lines) {
  double height = 0;
  for (size_t i = 0; i < lines.size(); ++i) height += line_height(lines, i);
  return height;
}

void add_lines(std::vector<Words>& lines, std::string_view text, Letters letters, Rgb color, double width,
               int64_t most) {
  for (std::string& line : wrap(text, static_cast<int64_t>(width / advance_of(letters)), most))
    lines.push_back({std::move(line), letters, color});
}

// `y` is the top of the first line.
void draw_lines(Canvas& canvas, const std::vector<Words>& lines, double x, double y) {
  for (size_t i = 0; i < lines.size(); ++i) {
    y += line_height(lines, i);
    canvas.text(x, y - 5, lines[i].text, lines[i].letters, Anchor::left, lines[i].color);
  }
}

std::string described(const MaskPicture& p) {
  std::string text = kept_text(p);
  for (const std::string& more : {tiles_text(p), cells_text(p), p.note}) text += more.empty() ? "" : "; " + more;
  return text;
}

using NewCanvas = std::unique_ptr<Canvas> (*)(double width, double height);

std::string draw_picture(const MaskPicture& p, NewCanvas new_canvas) {
  const auto [plot_width, plot_height] = plot_size(p, kPlotSide);
  const double labels =
      std::max<double>(static_cast<double>(text_width(std::to_string(p.s_q))) * advance_of(Letters::small) + 10, 24);
  // Half of the last key's label stands over the edge.
  const double beyond = static_cast<double>(text_width(std::to_string(p.s_kv))) * advance_of(Letters::small) / 2;
  const double width = std::max(2 * kMargin + labels + plot_width + beyond, kLeastWidth);
  const double room = width - 2 * kMargin;

  std::vector<Words> head;
  add_lines(head, p.title, Letters::large, kInk, room, 3);
  if (!p.note.empty()) add_lines(head, p.note, Letters::small, kInk, room, 2);
  for (const std::string& fact : {kept_text(p), tiles_text(p), cells_text(p)}) {
    if (!fact.empty()) add_lines(head, fact, Letters::small, kFaintInk, room, 2);
  }
  const std::vector<Entry> legend = legend_of({p});
  const Plot plot{kMargin + labels, kMargin + height_of(head) + (p.rows * p.cols == 0 ? 14 : 44), plot_width,
                  plot_height};
  const double legend_y = plot.y + plot.height + 16;
  const double height =
      legend_y + draw_legend(nullptr, legend, plot.x, legend_y, width - kMargin - plot.x) + kMargin - 4;

  const auto canvas = new_canvas(width, height);
  draw_lines(*canvas, head, kMargin, kMargin - 4);
  draw_cells(*canvas, p, plot);
  draw_axes(*canvas, p, plot);
  draw_legend(canvas.get(), legend, plot.x, legend_y, width - kMargin - plot.x);
  return canvas->finish(p.title, described(p));
}

std::string draw_gallery(const std::string& title, const std::vector<MaskPicture>& pictures, NewCanvas new_canvas) {
  const auto columns = static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(pictures.size()), 2, 5));
  constexpr double kGap = 26;
  const double pitch = kPanelSide + kGap;
  const double width = 2 * kMargin + pitch * static_cast<double>(columns) - kGap;
  std::vector<Words> head;
  if (!title.empty()) add_lines(head, title, Letters::large, kInk, width - 2 * kMargin, 3);
  const std::vector<Entry> legend = legend_of(pictures);

  struct Panel {
    std::vector<Words> head;
    double plot_width, plot_height;
  };
  std::vector<Panel> panels;
  for (const MaskPicture& p : pictures) {
    Panel panel;
    if (!p.note.empty()) add_lines(panel.head, p.note, Letters::large, kInk, kPanelSide, 1);
    if (p.title != title) add_lines(panel.head, p.title, Letters::small, kFaintInk, kPanelSide, 2);
    add_lines(panel.head, "keeps " + percent(p.kept_share()), Letters::small, kFaintInk, kPanelSide, 1);
    std::tie(panel.plot_width, panel.plot_height) = plot_size(p, kPanelSide);
    panels.push_back(std::move(panel));
  }

  // Rows of panels are as high as their highest; plots of a row start at one height.
  struct Row {
    double head = 0, plot = 0;
  };
  std::vector<Row> rows((panels.size() + columns - 1) / columns);
  for (size_t i = 0; i < panels.size(); ++i) {
    Row& row = rows[i / columns];
    row.head = std::max(row.head, height_of(panels[i].head));
    row.plot = std::max(row.plot, panels[i].plot_height);
  }
  const double legend_y = kMargin + height_of(head) + 4;
  double y = legend_y + draw_legend(nullptr, legend, kMargin, legend_y, width - 2 * kMargin) + 6;
  std::vector<double> tops;
  for (const Row& row : rows) {
    tops.push_back(y);
    y += row.head + 4 + row.plot + kGap;
  }

  const auto canvas = new_canvas(width, y - kGap + kMargin);
  draw_lines(*canvas, head, kMargin, kMargin - 4);
  draw_legend(canvas.get(), legend, kMargin, legend_y, width - 2 * kMargin);
  std::string description;
  for (size_t i = 0; i < panels.size(); ++i) {
    const Panel& panel = panels[i];
    const Row& row = rows[i / columns];
    const double x = kMargin + pitch * static_cast<double>(i % columns), top = tops[i / columns];
    draw_lines(*canvas, panel.head, x, top);
    draw_cells(*canvas, pictures[i], {x, top + row.head + 4, panel.plot_width, panel.plot_height});
    description += (i == 0 ? "" : "; ") + (pictures[i].note.empty() ? pictures[i].title : pictures[i].note) +
                   " keeps " + percent(pictures[i].kept_share());
  }
  return canvas->finish(title, description);
}

}  // namespace

std::string picture_svg(const MaskPicture& picture) { return draw_picture(picture, svg_canvas); }
std::string picture_png(const MaskPicture& picture) { return draw_picture(picture, png_canvas); }
std::string cells_svg(const MaskPicture& picture) {
  const auto [width, height] = plot_size(picture, kPanelSide);
  const auto canvas = svg_canvas(width + 2, height + 2);
  draw_cells(*canvas, picture, {1, 1, width, height});
  return canvas->finish(picture.title, described(picture));
}

std::string gallery_svg(const std::string& title, const std::vector<MaskPicture>& pictures) {
  return draw_gallery(title, pictures, svg_canvas);
}
std::string gallery_png(const std::string& title, const std::vector<MaskPicture>& pictures) {
  return draw_gallery(title, pictures, png_canvas);
}

}  // namespace anymask::cli
