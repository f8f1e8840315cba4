// Touches every element of a tensor, so that a sanitizer sees any that lies outside the file.
#pragma once

#include <cstdint>

#include "cli/io/tensor.h"

namespace anymask::fuzz {

inline void read_all(const cli::Tensor& tensor) {
  volatile double sink = 0;
  const int64_t count = tensor.numel();
  for (int64_t i = 0; i < count; ++i) sink = cli::element(tensor, i);
  static_cast<void>(sink);
}

}  // namespace anymask::fuzz
