// From what callers hand over (DLPack views, sized structs) to what the library works with, checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "anymask/anymask.h"
#include "core/error.h"
#include "core/tensor.h"

namespace anymask {

enum class Data : uint8_t { needed, may_be_null };  // may_be_null: only the shape counts

// Checks rank, shape, strides, type, device, alignment and that sizes in bytes fit 64 bits; applies byte_offset.
// Strides of dimensions of size 1 or 0 mean nothing and become 0, so that they cannot mislead anyone.
TensorView view_of(const char* operation, const char* name, const DLTensor& tensor, Data data = Data::needed);

// The bytes a view spans, from its lowest to beyond its highest element. Equal when it has no elements.
struct Span {
  uintptr_t begin, end;
};
Span span_of(const TensorView& view);
inline bool meet(const Span& x, const Span& y) {
  return x.begin != x.end && y.begin != y.end && x.end > y.begin && y.end > x.begin;
}

// A struct that begins with its size: at least `first`, that of its first version. What an older one does not have is
// zero. A larger one comes from a newer header: fine as long as what this library does not know is left zero.
void check_sized(const char* operation, const char* what, const void* data, size_t struct_size, size_t first,
                 size_t known);

template <class T>
T sized(const char* operation, const char* what, const T& given, size_t first = sizeof(T)) {
  check_sized(operation, what, &given, given.struct_size, first, sizeof(T));
  T known = {};
  std::memcpy(&known, &given, std::min(given.struct_size, sizeof(T)));
  return known;
}

// throws when a pointer argument is NULL.
template <class T>
T& required(const char* operation, const char* name, T* pointer) {
  if (pointer == nullptr) fail_invalid(operation, ": ", name, " is NULL; expected a valid pointer: pass one");
  return *pointer;
}

}  // namespace anymask
