// Arrays of masks: ownership, and copies made contiguous whatever the source's strides.
#include "core/array.h"

#include <cstring>
#include <limits>

#include "core/error.h"

namespace anymask {
namespace {

void check_rank(const TensorView& source, const std::string& name) {
  if (source.rank < 1 || source.rank > max_rank) {
    fail_invalid("mask: array ", name.empty() ? "(unnamed)" : "@" + name, " has rank ", source.rank, "; expected 1 to ",
                 max_rank, ": reshape it");
  }
  int64_t bytes = size_of(source.dtype);
  for (int i = 0; i < source.rank; ++i) {
    if (source.shape[i] < 0)
      fail_invalid("mask: array @", name, " has shape ", source, "; expected no negative extents: check the view");
    if (source.shape[i] != 0 && bytes > std::numeric_limits<int64_t>::max() / source.shape[i]) {
      fail_invalid("mask: array @", name, " has shape ", source, ", more bytes than 64 bits count: check the view");
    }
    bytes *= source.shape[i] == 0 ? 1 : source.shape[i];
  }
}

// Row-major copy of a strided view. The last axis is copied at once where it is contiguous.
void copy_contiguous(const TensorView& source, std::byte* out) {
  const auto* base = static_cast<const std::byte*>(source.data);
  const int64_t item = size_of(source.dtype);
  const int last = source.rank - 1;
  const int64_t cols = source.shape[last];
  const int64_t col_stride = source.stride[last];
  std::array<int64_t, max_rank> index{};
  for (;;) {
    int64_t offset = 0;
    for (int i = 0; i < last; ++i) offset += index[i] * source.stride[i];
    if (col_stride == 1) {
      std::memcpy(out, base + offset * item, static_cast<size_t>(cols * item));
      out += cols * item;
    } else {
      for (int64_t c = 0; c < cols; ++c, out += item) {
        std::memcpy(out, base + (offset + c * col_stride) * item, static_cast<size_t>(item));
      }
    }
    int axis = last - 1;
    while (axis >= 0 && ++index[axis] == source.shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

}  // namespace

Array Array::own(std::vector<int64_t> values, std::string name) {
  const auto owner = std::make_shared<std::vector<int64_t>>(std::move(values));
  Array result;
  result.view.data = owner->data();
  result.view.dtype = DType::i64;
  result.view.rank = 1;
  result.view.shape[0] = static_cast<int64_t>(owner->size());
  result.view.stride[0] = 1;
  result.owner = owner;
  result.name = std::move(name);
  return result;
}

Array Array::own(const TensorView& source, std::string name) {
  check_rank(source, name);
  if (source.device.kind != DeviceKind::cpu) {
    fail_invalid("mask: array ", name.empty() ? "(unnamed)" : "@" + name, " is on CUDA device ", source.device.index,
                 "; what is copied is read on the host: borrow it, or copy it to the CPU first");
  }
  const int64_t numel = source.numel();
  if (numel > 0 && source.data == nullptr)
    fail_invalid("mask: array @", name, " has shape ", source, " but no data: pass its memory");
  // 8-byte units: aligned for every element type.
  const auto owner =
      std::make_shared<std::vector<uint64_t>>(static_cast<size_t>((numel * size_of(source.dtype) + 7) / 8));
  if (numel > 0) copy_contiguous(source, reinterpret_cast<std::byte*>(owner->data()));
  Array result;
  result.view = source;
  result.view.data = owner->data();
  int64_t stride = 1;
  for (int i = source.rank - 1; i >= 0; --i) {
    result.view.stride[i] = stride;
    stride *= source.shape[i];
  }
  result.owner = owner;
  result.name = std::move(name);
  return result;
}

Array Array::borrow(const TensorView& source, std::string name) {
  check_rank(source, name);
  if (source.numel() > 0 && source.data == nullptr) {
    fail_invalid("mask: array @", name, " has shape ", source, " but no data: pass its memory");
  }
  Array result;
  result.view = source;
  result.name = std::move(name);
  return result;
}

}  // namespace anymask
