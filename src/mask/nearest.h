// "did you mean": the closest of some names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace anymask {

// By edit distance (a swap of neighbours counts once); empty when nothing comes close.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace anymask
