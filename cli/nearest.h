// "did you mean": the nearest of some known names by edit distance.
#pragma once

#include <string>
#include <vector>

namespace anymask::cli {

// "; did you mean causal?" when a known name is near enough, else "".
std::string did_you_mean(const std::string& text, const std::vector<std::string>& known);

}  // namespace anymask::cli
