// The layout of grouped horizontal bars: legend on top, a label a group, a value a bar, an axis with round values
// below.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/picture/canvas.h"
#include "cli/picture/label.h"

namespace anymask::cli {

namespace {

constexpr double kMargin = 18, kBarsWidth = 460, kBar = 13, kBarGap = 2, kGroupGap = 12;
constexpr int64_t kLongestLabel = 44, kLongestValue = 28;

// Okabe and Ito's colours, ours first, ordered so that neighbours differ in lightness; more series than these start
// over.
constexpr Rgb kSeries[] = {{0x1b, 0x4b, 0x91}, {0xe6, 0x9f, 0x00}, {0x00, 0x9e, 0x73}, {0xcc, 0x79, 0xa7},
                           {0x56, 0xb4, 0xe9}, {0xd5, 0x5e, 0x00}, {0x80, 0x80, 0x80}, {0xf0, 0xe4, 0x42}};

std::string value_text(const Bar& bar) {
  return elide(bar.text.empty() ? short_number(bar.value) : bar.text, kLongestValue);
}

using NewCanvas = std::unique_ptr<Canvas> (*)(double width, double height);

std::string draw_bars(const std::string& title, const BarRows& rows, NewCanvas new_canvas) {
  const double letter = advance_of(Letters::small);
  std::vector<std::string> series;
  double highest = std::isfinite(rows.peak) ? std::max(rows.peak, 0.0) : 0;
  int64_t label_width = 4, longest_value = 4;
  double bars_height = 0;
  for (const BarGroup& group : rows.groups) {
    label_width = std::max(label_width, std::min(text_width(group.label), kLongestLabel));
    bars_height += static_cast<double>(std::max<size_t>(group.bars.size(), 1)) * (kBar + kBarGap) + kGroupGap;
    for (const Bar& bar : group.bars) {
      if (std::find(series.begin(), series.end(), bar.series) == series.end()) series.push_back(bar.series);
      if (std::isfinite(bar.value)) highest = std::max(highest, bar.value);
      longest_value = std::max(longest_value, text_width(value_text(bar)));
    }
  }
  const std::vector<double> ticks = value_ticks(highest, 7);
  const double axis_end = ticks.back();
  const double left = kMargin + static_cast<double>(label_width) * letter + 10;
  const double width = left + kBarsWidth + static_cast<double>(longest_value) * letter + 12 + kMargin;
  const auto heading = wrap(title, static_cast<int64_t>((width - 2 * kMargin) / advance_of(Letters::large)), 3);

  // Series in the legend, wrapped.
  struct Place {
    double x, y;
  };
  std::vector<Place> places;
  double x = kMargin, y = kMargin + static_cast<double>(heading.size()) * line_of(Letters::large) + 4;
  for (const std::string& name : series) {
    const double entry = 18 + static_cast<double>(text_width(name)) * letter;
    if (x > kMargin && x + entry > width - kMargin) x = kMargin, y += 18;
    places.push_back({x, y});
    x += entry + 18;
  }
  const double top = y + (series.empty() ? 0 : 24) + (rows.peak > 0 ? 16 : 4), bottom = top + bars_height;
  const auto at = [&](double value) { return left + kBarsWidth * std::clamp(value / axis_end, 0.0, 1.0); };

  const auto canvas = new_canvas(width, bottom + 40 + kMargin);
  for (size_t i = 0; i < heading.size(); ++i) {
    canvas->text(kMargin, kMargin + static_cast<double>(i + 1) * line_of(Letters::large) - 9, heading[i],
                 Letters::large, Anchor::left, kInk);
  }
  for (size_t i = 0; i < series.size(); ++i) {
    canvas->boxes({{places[i].x, places[i].y, 12, 12}}, kSeries[i % std::size(kSeries)]);
    canvas->text(places[i].x + 18, places[i].y + 10, series[i], Letters::small, Anchor::left, kInk);
  }
  for (const double tick : ticks) {
    canvas->line(at(tick), top, at(tick), bottom, 1, kGuide);
    canvas->text(at(tick), bottom + 16, short_number(tick), Letters::small, Anchor::middle, kFaintInk);
  }
  canvas->text(left + kBarsWidth / 2, bottom + 34, rows.unit, Letters::small, Anchor::middle, kFaintInk);

  y = top + kGroupGap / 2;
  std::string description;
  for (const BarGroup& group : rows.groups) {
    const double height = static_cast<double>(std::max<size_t>(group.bars.size(), 1)) * (kBar + kBarGap) - kBarGap;
    canvas->text(left - 8, y + height / 2 + 3.5, elide(group.label, kLongestLabel), Letters::small, Anchor::right,
                 kInk);
    for (const Bar& bar : group.bars) {
      const auto color = static_cast<size_t>(std::find(series.begin(), series.end(), bar.series) - series.begin()) %
                         std::size(kSeries);
      const double value = std::isfinite(bar.value) ? bar.value : 0;
      canvas->boxes({{left, y, at(value) - left, kBar}}, kSeries[color]);
      canvas->text(at(value) + 5, y + 10, value_text(bar), Letters::small, Anchor::left, kInk);
      description += (description.empty() ? "" : "; ") + group.label + ", " + bar.series + ": " + value_text(bar);
      y += kBar + kBarGap;
    }
    y += kGroupGap + (group.bars.empty() ? kBar + kBarGap : 0);
  }
  canvas->line(left, top, left, bottom, 1, kFrame);
  if (rows.peak > 0) {
    canvas->line(at(rows.peak), top - 2, at(rows.peak), bottom, 1.5, kInk, true);
    const std::string label = (rows.peak_label.empty() ? "peak" : rows.peak_label) + " " + short_number(rows.peak);
    // Over the line, unless that would reach into the labels.
    const bool fits = at(rows.peak) - left > static_cast<double>(text_width(label)) * letter / 2;
    canvas->text(at(rows.peak), top - 6, label, Letters::small, fits ? Anchor::middle : Anchor::left, kInk);
  }
  return canvas->finish(title, description + (rows.unit.empty() ? "" : " (" + rows.unit + ")"));
}

}  // namespace

std::string bars_svg(const std::string& title, const BarRows& rows) { return draw_bars(title, rows, svg_canvas); }
std::string bars_png(const std::string& title, const BarRows& rows) { return draw_bars(title, rows, png_canvas); }

}  // namespace anymask::cli
