// The keyword argument of every kind that looks at positions.
#pragma once

#include "mask/registry.h"

namespace anymask {

inline ArgumentSpec align_argument() {
  return {"align", ArgumentType::align, false, "bottom_right",
          "position of row q: q + s_kv - s_q (bottom_right), or q (top_left)"};
}

}  // namespace anymask
