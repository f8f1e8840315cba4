#include "cli/problem_input.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "cli/io/file.h"
#include "cli/io/npy.h"
#include "cli/io/safetensors.h"

namespace anymask::cli {

void add_problem_options(Args& args, ProblemInput& input, bool with_shape) {
  args.section("Tensors (.npy; or all of them, and the mask's arrays, in one --input by these names)");
  args.option(
      "--input", input.input, "FILE",
      "a .safetensors file holding q, k, v, bias, sinks, alibi, dout, dlse, cu_seqlens_q, cu_seqlens_kv and arrays");
  args.option("--q", input.q, "FILE", "queries [b, s_q, h_q, d_qk], or packed [total_q, h_q, d_qk]");
  args.option("--k", input.k, "FILE", "keys [b, s_kv, h_kv, d_qk], or packed [total_kv, h_kv, d_qk]");
  args.option("--v", input.v, "FILE", "values [b, s_kv, h_kv, d_v], or packed [total_kv, h_kv, d_v]");
  args.option("--bias", input.bias, "FILE", "added after the softcap: [b or 1, h_q or h_kv or 1, s_q or 1, s_kv]");
  args.option("--sinks", input.sinks, "FILE", "a logit per query head in the denominator: [h_q]");
  args.option("--alibi", input.alibi, "FILE", "ALiBi slopes [h_q] or [b, h_q]");
  args.option("--cu-seqlens-q", input.cu_seqlens_q, "FILE", "row offsets of packed sequences [n + 1]");
  args.option("--cu-seqlens-kv", input.cu_seqlens_kv, "FILE", "key offsets of packed sequences [n + 1] (as the rows')");
  args.option("--dout", input.dout, "FILE", "gradient of out, of out's shape: computes the backward too");
  args.option("--dlse", input.dlse, "FILE", "gradient of lse [b, h_q, s_q], float32");
  if (with_shape) args.option("--shape", input.shape, "B,S_Q,S_KV,H_Q,H_KV,D[,D_V]", "shapes instead of tensors");
  args.section("Mask");
  add_mask_options(args, input.mask, true);
  args.section("Computation");
  args.option("--scale", input.scale, "X", "softmax scale (1 / sqrt(d_qk))");
  args.option("--softcap", input.softcap, "X", "scores become X * tanh(score / X) (none)");
  args.option("--dtype", input.dtype, "TYPE",
              "compute in fp32, fp16 or bf16, converting the inputs; without it q, k, v must be one of these. uint16 "
              "(or V2, as ml_dtypes saves) .npy "
              "files hold bf16 bits and are read so under --dtype bf16");
  args.choice("--backend", input.backend, {"auto", "cpu", "cuda", "reference", "naive"}, "what computes; auto picks");
  args.option("--threads", input.threads, "N", "threads; 0: as many as this process may use");
  args.flag("--deterministic", input.deterministic,
            "the same bits every time, on every backend (a CPU always gives them)");
  args.section("");
}

namespace {

// Where each named tensor comes from: its own file, else the --input file.
class Source {
 public:
  explicit Source(const ProblemInput& input) {
    if (input.input.empty()) return;
    what_ = "--input (" + input.input + ")";
    file_ = read_safetensors(input.input, what_);
  }
  Tensor get(const char* name, const std::string& path) const {
    if (!path.empty()) return read_npy(path, name);
    if (const Tensor* tensor = what_.empty() ? nullptr : file_.find(name, what_)) return *tensor;
    return {};
  }
  const SafetensorsFile& file() const { return file_; }
  const std::string& what() const { return what_; }

 private:
  std::string what_;
  SafetensorsFile file_;
};

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> numbers;
  const char* at = text.c_str();
  while (true) {
    char* end = nullptr;
    errno = 0;
    const long long n = std::strtoll(at, &end, 10);
    if (end == at || errno == ERANGE || n < 0 || (*end != ',' && *end != 0)) {
      throw UsageError("--shape is \"" + text +
                       "\"; expected integers B,S_Q,S_KV,H_Q,H_KV,D[,D_V] such as 1,4096,4096,8,2,64");
    }
    numbers.push_back(n);
    if (*end == 0) break;
    at = end + 1;
  }
  if (numbers.size() == 6) numbers.push_back(numbers[5]);
  if (numbers.size() != 7) {
    throw UsageError("--shape has " + std::to_string(numbers.size()) +
                     " numbers; expected B,S_Q,S_KV,H_Q,H_KV,D[,D_V]");
  }
  return numbers;
}

// A tensor of that shape without memory: enough for explain.
Tensor shape_only(const char* name, ElementType type, std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.present = true;
  if (tensor.numel() < 0)
    throw UsageError(std::string("--shape: ") + name + " would have shape " + tensor.shape_text() +
                     ", more elements than 64-bit sizes hold");
  return tensor;
}

bool computes_in(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

// q, k, v, dout in the computation's type.
void convert_main(Tensor& tensor, const std::optional<ElementType>& type) {
  if (!tensor.present) return;
  if (!type) {
    if (computes_in(tensor.type)) return;
    throw UsageError(tensor.name + " has type " + name_of(tensor.type) + "; expected float32, float16 or bfloat16: " +
                     (tensor.type == ElementType::u16
                          ? "give --dtype bf16 if it holds bf16 bits, or convert the file"
                          : "give --dtype fp32 (or fp16, bf16) to convert it, or save it in another type"));
  }
  if (tensor.type == ElementType::u16 && *type == ElementType::bf16) {
    tensor.type = ElementType::bf16;
    return;
  }
  if (!is_float(tensor.type)) {
    throw UsageError(tensor.name + " has type " + name_of(tensor.type) +
                     "; expected a floating type, which --dtype can convert: save it as float32");
  }
  tensor = convert(tensor, *type);
}

// bias, sinks, alibi, dlse: float32 and the computation's type stand as they are; others become float32 under --dtype.
void convert_side(Tensor& tensor, const std::optional<ElementType>& type, bool must_be_f32) {
  if (!tensor.present) return;
  if (type && *type == ElementType::bf16 && tensor.type == ElementType::u16) tensor.type = ElementType::bf16;
  if (tensor.type == ElementType::f32 || (!must_be_f32 && (type ? tensor.type == *type : computes_in(tensor.type))))
    return;
  if (!is_float(tensor.type))
    throw UsageError(tensor.name + " has type " + name_of(tensor.type) +
                     "; expected float32: convert it with .astype('float32')");
  if (!type) {
    throw UsageError(tensor.name + " has type " + name_of(tensor.type) +
                     "; expected float32: give --dtype to convert it, or save it as float32");
  }
  tensor = convert(tensor, ElementType::f32);
}

}  // namespace

Call load_call(const ProblemInput& input) {
  Call call;
  std::optional<ElementType> type;
  if (!input.dtype.empty()) type = float_type(input.dtype, "--dtype");
  const Source source(input);
  if (!input.shape.empty()) {
    if (!input.q.empty() || !input.k.empty() || !input.v.empty() || !input.input.empty())
      throw UsageError("--shape stands instead of q, k and v: give one or the other");
    const std::vector<int64_t> n = parse_shape(input.shape);
    const ElementType element = type.value_or(ElementType::f32);
    call.q = shape_only("q", element, {n[0], n[1], n[3], n[5]});
    call.k = shape_only("k", element, {n[0], n[2], n[4], n[5]});
    call.v = shape_only("v", element, {n[0], n[2], n[4], n[6]});
  } else {
    call.q = source.get("q", input.q);
    call.k = source.get("k", input.k);
    call.v = source.get("v", input.v);
  }
  for (const auto& [tensor, name] : {std::pair{&call.q, "q"}, std::pair{&call.k, "k"}, std::pair{&call.v, "v"}}) {
    if (tensor->present) continue;
    if (!source.what().empty())
      throw UsageError(source.what() + " holds no tensor \"" + name + "\": add it to the file, or give --" + name +
                       " FILE");
    throw UsageError(std::string(name) + " is missing: give --" + name +
                     " FILE, or --input with a .safetensors file that holds it");
  }
  call.bias = source.get("bias", input.bias);
  call.sinks = source.get("sinks", input.sinks);
  call.alibi = source.get("alibi", input.alibi);
  call.dout = source.get("dout", input.dout);
  call.dlse = source.get("dlse", input.dlse);
  call.cu_seqlens_q = source.get("cu_seqlens_q", input.cu_seqlens_q);
  call.cu_seqlens_kv = source.get("cu_seqlens_kv", input.cu_seqlens_kv);
  for (Tensor* tensor : {&call.q, &call.k, &call.v, &call.dout}) convert_main(*tensor, type);
  for (Tensor* tensor : {&call.bias, &call.sinks, &call.alibi}) convert_side(*tensor, type, false);
  convert_side(call.dlse, type, true);
  if (call.dlse.present && !call.dout.present)
    throw UsageError("dlse is given without dout: the backward needs both; give --dout (zeros if only lse matters)");
  if (call.cu_seqlens_kv.present && !call.cu_seqlens_q.present)
    throw UsageError("cu_seqlens_kv is given without cu_seqlens_q: give --cu-seqlens-q too");

  call.mask_arrays = load_mask_arrays(input.mask);
  const std::string text = input.mask.file.empty()
                               ? input.mask.text
                               : read_text_file(input.mask.file, "--mask-file (" + input.mask.file + ")");
  for (const Tensor& tensor : source.file().tensors) {  // those the mask asks for and no --array gives
    const bool given = std::any_of(call.mask_arrays.begin(), call.mask_arrays.end(),
                                   [&](const Tensor& a) { return a.name == tensor.name; });
    if (!given && text.find("@" + tensor.name) != std::string::npos) call.mask_arrays.push_back(tensor);
  }
  for (const SafetensorsFile::Unusable& tensor : source.file().unusable) {
    const size_t at = text.find("@" + tensor.name);
    if (at != std::string::npos) source.file().find(tensor.name, source.what());
  }
  call.mask = load_mask(input.mask, call.mask_arrays);
  call.scale = input.scale;
  call.softcap = input.softcap.value_or(0);
  call.deterministic = input.deterministic;
  if (input.threads < 0 || input.threads > 4096)
    throw UsageError("--threads is " + std::to_string(input.threads) + "; expected 0 to 4096");
  call.threads = input.threads;
  call.backend = input.backend;
  check_ranks(call);
  return call;
}

}  // namespace anymask::cli
