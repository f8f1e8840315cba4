// Scripts that complete `anymask` in a shell, generated from the options the commands declare.
#pragma once

#include <string>
#include <vector>

#include "cli/args.h"

namespace anymask::cli {

// `shell`: bash, zsh or fish.
std::string completion_script(const std::string& shell, const std::vector<Args::CommandInfo>& commands);

}  // namespace anymask::cli
