// A mask and the lengths it is looked at with, as `view`, `explain` and `run` read them from the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/args.h"
#include "cli/io/tensor.h"
#include "cli/library.h"

namespace anymask::cli {

// `--mask TEXT` (or a positional), `--mask-file FILE`, `--array name=FILE` as often as needed.
struct MaskInput {
  std::string text;                 // empty with an empty file: full
  std::string file;                 // text is read from here
  std::vector<std::string> arrays;  // "name=file.npy"
};
// Declares --mask-file and --array, and --mask unless the command takes the text as a positional.
void add_mask_options(Args& args, MaskInput& input, bool text_as_option);

// name=file.npy -> a tensor called name, for each of `input.arrays`. The arrays are what the mask borrows: keep them as
// long as it.
std::vector<Tensor> load_mask_arrays(const MaskInput& input);
// The mask of the text, its @names found among `arrays`.
MaskHandle load_mask(const MaskInput& input, const std::vector<Tensor>& arrays);

// `--seq N` (both lengths), `--s-q`, `--s-kv`, `--batch`, `--heads` (h_q), `--kv-heads`, `--cu-seqlens-q FILE`,
// `--cu-seqlens-kv FILE`.
struct LengthsInput {
  std::optional<int64_t> seq, s_q, s_kv;
  int64_t batch = 1, heads = 1, kv_heads = 0;  // kv_heads 0: as heads
  std::string cu_seqlens_q, cu_seqlens_kv;
};
void add_lengths_options(Args& args, LengthsInput& input);

// Lengths as the library takes them, with the tensors they point to.
struct Lengths {
  Tensor cu_seqlens_q, cu_seqlens_kv;
  DLTensor cu_q{}, cu_kv{};
  anymask_lengths value{};
  Lengths() = default;
  Lengths(const Lengths&) = delete;  // value points into this object
  Lengths& operator=(const Lengths&) = delete;
};
// `default_seq` when no length was given; refuses contradictions.
void load_lengths(const LengthsInput& input, int64_t default_seq, Lengths& out);

}  // namespace anymask::cli
