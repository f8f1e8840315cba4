#include "cli/io/tensor.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "cli/args.h"
#include "cli/io/half.h"

namespace anymask::cli {

int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::boolean:
      return 1;
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::i16:
    case ElementType::u16:
      return 2;
    case ElementType::f32:
    case ElementType::i32:
    case ElementType::u32:
      return 4;
    case ElementType::f64:
    case ElementType::i64:
    case ElementType::u64:
      return 8;
  }
  return 0;
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return "float16";
    case ElementType::bf16:
      return "bfloat16";
    case ElementType::f32:
      return "float32";
    case ElementType::f64:
      return "float64";
    case ElementType::i8:
      return "int8";
    case ElementType::i16:
      return "int16";
    case ElementType::u16:
      return "uint16";
    case ElementType::i32:
      return "int32";
    case ElementType::u32:
      return "uint32";
    case ElementType::i64:
      return "int64";
    case ElementType::u64:
      return "uint64";
    case ElementType::u8:
      return "uint8";
    case ElementType::boolean:
      return "bool";
  }
  return "?";
}

bool is_float(ElementType type) {
  return type == ElementType::f16 || type == ElementType::bf16 || type == ElementType::f32 || type == ElementType::f64;
}

ElementType float_type(const std::string& text, const char* option) {
  if (text == "fp32" || text == "float32" || text == "f32" || text == "float") return ElementType::f32;
  if (text == "fp16" || text == "float16" || text == "f16" || text == "half") return ElementType::f16;
  if (text == "bf16" || text == "bfloat16") return ElementType::bf16;
  throw UsageError(std::string(option) + " has no type \"" + text + "\": use fp32, fp16 or bf16");
}

int64_t checked_numel(const std::vector<int64_t>& shape) {
  bool empty = false;
  for (const int64_t n : shape) {
    if (n < 0) return -1;
    empty |= n == 0;
  }
  int64_t count = 1;
  for (const int64_t n : shape) {  // the non-zero dimensions must be countable even when the tensor is empty: strides
                                   // are products of them
    if (__builtin_mul_overflow(count, n == 0 ? 1 : n, &count) || count > (int64_t{1} << 59)) return -1;
  }
  return empty ? 0 : count;
}

int64_t Tensor::numel() const { return checked_numel(shape); }

std::string Tensor::shape_text() const {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

DLTensor make_view(void* data, ElementType type, int rank, int64_t* shape, int64_t* strides) {
  uint8_t code = kDLFloat;
  switch (type) {
    case ElementType::f16:
    case ElementType::f32:
    case ElementType::f64:
      code = kDLFloat;
      break;
    case ElementType::bf16:
      code = kDLBfloat;
      break;
    case ElementType::i8:
    case ElementType::i16:
    case ElementType::i32:
    case ElementType::i64:
      code = kDLInt;
      break;
    case ElementType::u8:
    case ElementType::u16:
    case ElementType::u32:
    case ElementType::u64:
      code = kDLUInt;
      break;
    case ElementType::boolean:
      code = ANYMASK_DL_BOOL;
      break;
  }
  DLTensor view{};
  view.data = data;
  view.device = {kDLCPU, 0};
  view.ndim = rank;
  view.dtype = {code, static_cast<uint8_t>(8 * size_of(type)), 1};
  view.shape = shape;
  view.strides = strides;
  return view;
}

DLTensor Tensor::view() const {
  DLTensor view = make_view(data.get(), type, static_cast<int>(shape.size()), const_cast<int64_t*>(shape.data()),
                            strides.empty() ? nullptr : const_cast<int64_t*>(strides.data()));
  if (cuda_device >= 0) view.device = {kDLCUDA, cuda_device};
  return view;
}

Tensor make_tensor(std::string name, ElementType type, std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.present = true;
  const int64_t count = tensor.numel();
  if (count < 0)
    throw UsageError(tensor.name + " would have shape " + tensor.shape_text() +
                     ", more elements than 64-bit sizes hold: use smaller lengths");
  if (count > 0) {
    void* memory = std::calloc(static_cast<size_t>(count), static_cast<size_t>(size_of(type)));
    if (!memory) {
      throw UsageError(tensor.name + " of shape " + tensor.shape_text() + " and type " + name_of(type) + " needs " +
                       std::to_string(tensor.bytes()) + " bytes, more than there is memory: use smaller inputs");
    }
    tensor.data = std::shared_ptr<void>(memory, std::free);
  }
  return tensor;
}

double element(const Tensor& tensor, int64_t i) {
  switch (tensor.type) {
    case ElementType::f16:
      return f16_to_f32(tensor.as<uint16_t>()[i]);
    case ElementType::bf16:
      return bf16_to_f32(tensor.as<uint16_t>()[i]);
    case ElementType::f32:
      return tensor.as<float>()[i];
    case ElementType::f64:
      return tensor.as<double>()[i];
    case ElementType::i8:
      return tensor.as<int8_t>()[i];
    case ElementType::i16:
      return tensor.as<int16_t>()[i];
    case ElementType::u16:
      return tensor.as<uint16_t>()[i];
    case ElementType::i32:
      return tensor.as<int32_t>()[i];
    case ElementType::u32:
      return tensor.as<uint32_t>()[i];
    case ElementType::i64:
      return static_cast<double>(tensor.as<int64_t>()[i]);
    case ElementType::u64:
      return static_cast<double>(tensor.as<uint64_t>()[i]);
    case ElementType::u8:
    case ElementType::boolean:
      return tensor.as<uint8_t>()[i];
  }
  return 0;
}

void set_element(Tensor& tensor, int64_t i, double value) {
  switch (tensor.type) {
    case ElementType::f16:
      tensor.as<uint16_t>()[i] = f32_to_f16(static_cast<float>(value));
      break;
    case ElementType::bf16:
      tensor.as<uint16_t>()[i] = f32_to_bf16(static_cast<float>(value));
      break;
    case ElementType::f32:
      tensor.as<float>()[i] = static_cast<float>(value);
      break;
    case ElementType::f64:
      tensor.as<double>()[i] = value;
      break;
    default:
      throw UsageError(tensor.name + " would be converted to " + name_of(tensor.type) +
                       "; only floating types are converted to");
  }
}

Tensor convert(const Tensor& tensor, ElementType type) {
  if (tensor.type == type) return tensor;
  Tensor result = make_tensor(tensor.name, type, tensor.shape);
  const int64_t count = tensor.numel();
  for (int64_t i = 0; i < count; ++i) set_element(result, i, element(tensor, i));
  return result;
}

}  // namespace anymask::cli
