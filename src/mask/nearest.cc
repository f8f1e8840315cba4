#include "mask/nearest.h"

#include <algorithm>
#include <vector>

namespace anymask {
namespace {

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > 64) return "";  // nobody's typing mistake
  size_t best = std::max<size_t>(name.size() / 2, 2) + 1;
  std::string result;
  for (const std::string& candidate : candidates) {
    // A beginning of a name counts as close: "doc" is `documents`.
    const bool begins = name.size() >= 3 && candidate.starts_with(name);
    const size_t d = begins ? 1 : distance(name, candidate);
    if (d < best) {
      best = d;
      result = candidate;
    }
  }
  return result;
}

}  // namespace anymask
