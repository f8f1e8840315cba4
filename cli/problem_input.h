// An attention call as `run` and `explain` read it: tensors from .npy files, or all from one .safetensors file.
#pragma once

#include <optional>
#include <string>

#include "cli/args.h"
#include "cli/call.h"
#include "cli/mask_input.h"

namespace anymask::cli {

struct ProblemInput {
  std::string input;  // .safetensors
  std::string q, k, v, bias, sinks, alibi, dout, dlse, cu_seqlens_q, cu_seqlens_kv;
  std::string shape;  // explain: "b,s_q,s_kv,h_q,h_kv,d[,d_v]" instead of q, k, v
  MaskInput mask;
  std::optional<double> scale, softcap;
  std::string dtype;
  std::string backend = "auto";
  int64_t threads = 0;
  bool deterministic = false;
};

void add_problem_options(Args& args, ProblemInput& input, bool with_shape);

// Reads everything and checks what the library cannot see: missing tensors, types to convert. Throws UsageError.
Call load_call(const ProblemInput& input);

}  // namespace anymask::cli
