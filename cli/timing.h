// Wall-clock time of calls, and what is said about many of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace anymask::cli {

inline double milliseconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Linear between neighbours; `values` must not be empty.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}
inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }
// Distance of the quartiles over the median.
inline double spread(const std::vector<double>& values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

}  // namespace anymask::cli
