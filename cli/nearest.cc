#include "cli/nearest.h"

#include <algorithm>

namespace anymask::cli {

namespace {

// Levenshtein distance, one row at a time.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& text, const std::vector<std::string>& known) {
  if (text.size() > 64) return "";
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, text.size() / 3) + 1;  // farther is no help
  for (const std::string& name : known) {
    const size_t distance = edit_distance(text, name);
    if (distance < best_distance) best = &name, best_distance = distance;
  }
  return best ? "; did you mean " + *best + "?" : "";
}

}  // namespace anymask::cli
