// A plan against the mask it was made from, element by element.
#pragma once

#include <string>

#include "cli/call.h"
#include "cli/make_call.h"

namespace anymask::cli {

// Builds a plan of the call's mask at a random tile, direct or transposed; says what is wrong with it, or "".
std::string plan_problem(const Call& call, Random& random);

}  // namespace anymask::cli
