// Runs the built `anymask` and catches what it says.
#pragma once

#include <string>
#include <vector>

namespace anymask::cli {

struct Said {
  int status = -1;  // exit status; 1000 + n: killed by signal n
  std::string out, err;
};

// Arguments as a shell would split them, with single quotes only: "run --mask 'causal & full'".
std::vector<std::string> split(const std::string& line);
Said run_anymask(const std::vector<std::string>& arguments, const std::string& directory);
Said run_anymask(const std::string& line, const std::string& directory);

}  // namespace anymask::cli
