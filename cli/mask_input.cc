#include "cli/mask_input.h"

#include <algorithm>
#include <utility>

#include "cli/io/file.h"
#include "cli/io/npy.h"

namespace anymask::cli {

void add_mask_options(Args& args, MaskInput& input, bool text_as_option) {
  if (text_as_option)
    args.option("--mask", input.text, "TEXT",
                "what is kept, such as \"causal & documents(@cu)\"; `anymask masks` lists the kinds (full)");
  args.option("--mask-file", input.file, "FILE", "read the mask's text from a file");
  args.option("--array", input.arrays, "NAME=FILE",
              "the .npy file of an array the mask calls @NAME; as often as needed");
}

std::vector<Tensor> load_mask_arrays(const MaskInput& input) {
  std::vector<Tensor> arrays;
  for (const std::string& text : input.arrays) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw UsageError("--array expects NAME=FILE, such as cu=cu.npy; got \"" + text + "\"");
    }
    std::string name = text.substr(0, equals);
    if (name[0] == '@') name.erase(0, 1);
    if (std::any_of(arrays.begin(), arrays.end(), [&](const Tensor& a) { return a.name == name; })) {
      throw UsageError("--array gives " + name + " twice: use each name once");
    }
    Tensor array = read_npy(text.substr(equals + 1), "array @" + name);
    array.name = name;
    arrays.push_back(std::move(array));
  }
  return arrays;
}

MaskHandle load_mask(const MaskInput& input, const std::vector<Tensor>& arrays) {
  if (!input.text.empty() && !input.file.empty()) throw UsageError("both a mask and --mask-file are given: use one");
  const std::string text = !input.file.empty()  ? read_text_file(input.file, "--mask-file (" + input.file + ")")
                           : input.text.empty() ? "full"
                                                : input.text;
  if (text.find('\0') != std::string::npos) throw UsageError("the mask's text holds a zero byte: is it a text file?");
  std::vector<DLTensor> views;
  std::vector<anymask_named_array> named;
  views.reserve(arrays.size());
  for (const Tensor& array : arrays) {
    views.push_back(array.view());
    named.push_back({array.name.c_str(), &views.back(), 0});
  }
  anymask_mask_t mask = nullptr;
  check(anymask_mask_parse(text.c_str(), named.data(), static_cast<int64_t>(named.size()), &mask));
  return MaskHandle(mask);
}

void add_lengths_options(Args& args, LengthsInput& input) {
  args.section("Lengths");
  args.option("--seq", input.seq, "N", "length of queries and keys");
  args.option("--s-q", input.s_q, "N", "number of query rows");
  args.option("--s-kv", input.s_kv, "N", "number of keys");
  args.option("--batch", input.batch, "N", "batch entries (1)");
  args.option("--heads", input.heads, "N", "query heads (1)");
  args.option("--kv-heads", input.kv_heads, "N", "key/value heads (as many as query heads)");
  args.option("--cu-seqlens-q", input.cu_seqlens_q, "FILE", ".npy of packed sequences' row offsets");
  args.option("--cu-seqlens-kv", input.cu_seqlens_kv, "FILE", ".npy of packed sequences' key offsets (as the rows')");
  args.section("");
}

void load_lengths(const LengthsInput& input, int64_t default_seq, Lengths& out) {
  const bool packed = !input.cu_seqlens_q.empty();
  if (!packed && !input.cu_seqlens_kv.empty()) throw UsageError("--cu-seqlens-kv needs --cu-seqlens-q");
  if (packed && (input.seq || input.s_q || input.s_kv)) {
    throw UsageError("--cu-seqlens-q and --seq, --s-q or --s-kv contradict each other: the offsets say all lengths");
  }
  if (input.seq && input.s_q && input.s_kv)
    throw UsageError("--seq with both --s-q and --s-kv says lengths twice: drop --seq");
  out.value = {};
  out.value.struct_size = sizeof(anymask_lengths);
  if (packed) {
    out.cu_seqlens_q = read_npy(input.cu_seqlens_q, "cu_seqlens_q");
    out.cu_seqlens_kv = input.cu_seqlens_kv.empty() ? out.cu_seqlens_q : read_npy(input.cu_seqlens_kv, "cu_seqlens_kv");
    out.cu_q = out.cu_seqlens_q.view();
    out.cu_kv = out.cu_seqlens_kv.view();
    out.value.cu_seqlens_q = &out.cu_q;
    out.value.cu_seqlens_kv = &out.cu_kv;
  } else {
    const auto length = [&](const char* option, const std::optional<int64_t>& own,
                            const std::optional<int64_t>& other) {
      const int64_t value = own ? *own : input.seq ? *input.seq : other ? *other : default_seq;
      if (value < 0)
        throw UsageError(std::string(option) + " is " + std::to_string(value) + "; expected a length >= 0");
      return value;
    };
    out.value.s_q = length("--s-q", input.s_q, input.s_kv);
    out.value.s_kv = length("--s-kv", input.s_kv, input.s_q);
  }
  if (input.batch < 1) throw UsageError("--batch is " + std::to_string(input.batch) + "; expected a number >= 1");
  if (input.heads < 1) throw UsageError("--heads is " + std::to_string(input.heads) + "; expected a number >= 1");
  const int64_t h_kv = input.kv_heads == 0 ? input.heads : input.kv_heads;
  if (h_kv < 1 || input.heads % h_kv != 0) {
    throw UsageError("--kv-heads is " + std::to_string(h_kv) +
                     "; it must divide --heads = " + std::to_string(input.heads));
  }
  out.value.batch = packed ? 0 : input.batch;
  out.value.h_q = input.heads;
  out.value.h_kv = h_kv;
}

}  // namespace anymask::cli
