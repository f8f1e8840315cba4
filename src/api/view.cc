#include "api/view.h"

#include <cstdlib>
#include <limits>

namespace anymask {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 61;  // a span this large cannot exist; sums of a few of them still fit

DType dtype_of(const char* operation, const char* name, DLDataType type) {
  if (type.lanes == 1) {
    switch (type.code) {
      case kDLFloat:
        if (type.bits == 32) return DType::f32;
        if (type.bits == 16) return DType::f16;
        if (type.bits == 64) return DType::f64;
        break;
      case kDLBfloat:
        if (type.bits == 16) return DType::bf16;
        break;
      case kDLInt:
        if (type.bits == 32) return DType::i32;
        if (type.bits == 64) return DType::i64;
        break;
      case kDLUInt:
        if (type.bits == 8) return DType::u8;
        break;
      case ANYMASK_DL_BOOL:
        if (type.bits == 8) return DType::boolean;
        break;
      default:
        break;
    }
  }
  const bool is_integer = type.code == kDLInt || type.code == kDLUInt;
  if (is_integer && type.lanes == 1) {
    fail_invalid(operation, ": ", name, " has type ", type.code == kDLUInt ? "uint" : "int", int{type.bits},
                 "; expected float32, float16, bfloat16, float64, int32, int64, uint8 or bool: convert it");
  }
  fail_invalid(operation, ": ", name, " has DLPack type code ", int{type.code}, ", ", int{type.bits}, " bits, ",
               int{type.lanes},
               " lanes; expected float32, float16, bfloat16, float64, int32, int64, uint8 or bool: convert it");
}

Device device_of(const char* operation, const char* name, DLDevice device) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost:
      return {DeviceKind::cpu, 0};
    case kDLCUDA:
    case kDLCUDAManaged:
      return {DeviceKind::cuda, device.device_id};
    default:
      fail_unsupported(operation, ": ", name, " is on a device of DLPack type ", static_cast<int>(device.device_type),
                       "; expected the CPU (1) or CUDA (2): copy it");
  }
}

}  // namespace

TensorView view_of(const char* operation, const char* name, const DLTensor& tensor, Data data) {
  TensorView view;
  if (tensor.ndim < 0 || tensor.ndim > max_rank)
    fail_invalid(operation, ": ", name, " has rank ", tensor.ndim, "; expected 0 to ", max_rank, ": reshape it");
  if (tensor.ndim > 0 && tensor.shape == nullptr)
    fail_invalid(operation, ": ", name, " has rank ", tensor.ndim, " and a NULL shape: set DLTensor.shape");
  view.rank = tensor.ndim;
  bool none = false;
  for (int i = 0; i < view.rank; ++i) {
    view.shape[i] = tensor.shape[i];
    none = none || view.shape[i] == 0;
  }
  for (int i = 0; i < view.rank; ++i)
    if (view.shape[i] < 0)
      fail_invalid(operation, ": ", name, " has shape ", view, "; expected no negative size: check the view");
  view.dtype = dtype_of(operation, name, tensor.dtype);
  view.device = device_of(operation, name, tensor.device);

  // Elements, then the span in bytes: both must fit, whatever the strides are.
  const int64_t size = size_of(view.dtype);
  int64_t elements = none ? 0 : 1;
  for (int i = 0; i < view.rank && !none; ++i)
    if (__builtin_mul_overflow(elements, view.shape[i], &elements))
      fail_invalid(operation, ": ", name, " has shape ", view,
                   ", more than 2^63 elements; expected a count that fits 64 bits: check the sizes");
  int64_t contiguous = 1, reach = size;
  for (int i = view.rank - 1; i >= 0; --i) {
    const int64_t stride = tensor.strides == nullptr ? contiguous : tensor.strides[i];
    if (tensor.strides == nullptr && !none) contiguous *= view.shape[i];
    if (none || view.shape[i] == 1) continue;  // never stepped along: stays 0
    view.stride[i] = stride;
    int64_t steps = 0;
    if (stride == std::numeric_limits<int64_t>::min() ||
        __builtin_mul_overflow(view.shape[i] - 1, std::abs(stride), &steps) ||
        __builtin_mul_overflow(steps, size, &steps) || __builtin_add_overflow(reach, steps, &reach) ||
        reach > kMaxBytes)
      fail_invalid(operation, ": ", name, " has shape ", view, " and stride ", stride, " along axis ", i,
                   ": it would span more bytes than memory can hold: check shape and strides");
  }

  if (none) return view;
  if (tensor.data == nullptr) {
    if (data == Data::needed)
      fail_invalid(operation, ": ", name, " has shape ", view, " and a NULL data pointer: pass its memory");
    return view;
  }
  view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(size) != 0)
    fail_invalid(operation, ": ", name, " starts at an address that is no multiple of ", size, ", the size of ",
                 name_of(view.dtype), ": align it");
  return view;
}

Span span_of(const TensorView& view) {
  const auto base = reinterpret_cast<uintptr_t>(view.data);
  if (view.numel() == 0) return {base, base};
  const auto size = static_cast<uintptr_t>(size_of(view.dtype));
  Span span = {base, base + size};
  for (int i = 0; i < view.rank; ++i) {
    const auto steps = static_cast<uintptr_t>(view.shape[i] - 1) * size;
    if (view.stride[i] < 0) {
      span.begin -= steps * static_cast<uintptr_t>(-view.stride[i]);
    } else {
      span.end += steps * static_cast<uintptr_t>(view.stride[i]);
    }
  }
  return span;
}

void check_sized(const char* operation, const char* what, const void* data, size_t struct_size, size_t first,
                 size_t known) {
  constexpr size_t kSane = 4096;  // beyond this the field was never set
  if (struct_size < first || struct_size > kSane)
    fail_invalid(operation, ": ", what, ".struct_size is ", struct_size, "; expected ", known,
                 ": zero the struct and set struct_size = sizeof(it)");
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = known; i < struct_size; ++i)
    if (bytes[i] != 0)
      fail_invalid(operation, ": ", what, " sets fields that anymask ", ANYMASK_VERSION_MAJOR, ".",
                   ANYMASK_VERSION_MINOR, ".", ANYMASK_VERSION_PATCH, " does not know (byte ", i,
                   "): leave them zero, or use a newer library");
}

}  // namespace anymask
