// A tensor in memory: owned, or mapped from a file; or on a CUDA device (cli/device.h), where only view() is for it.
// Contiguous, C order, unless it has strides.
#pragma once

#include <anymask/anymask.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anymask::cli {

enum class ElementType : uint8_t { f16, bf16, f32, f64, i8, i16, u16, i32, u32, i64, u64, u8, boolean };

int64_t size_of(ElementType type);
const char* name_of(ElementType type);  // "float32", as NumPy says
bool is_float(ElementType type);
// "fp32", "float32", "f32" and so on for the four floating types; throws UsageError naming `option`.
ElementType float_type(const std::string& text, const char* option);

struct Tensor {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t>
      strides;  // elements; empty: contiguous. Only view() knows of them: such a tensor is passed on, not read here
  std::shared_ptr<void>
      data;  // owner and first element at once (a mapping is owned through it); may be null when empty
  bool present = false;
  int32_t cuda_device = -1;  // -1: host memory

  int64_t numel() const;
  int64_t bytes() const { return numel() * size_of(type); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data.get());
  }
  // A view, valid as long as this tensor stays where it is and lives.
  DLTensor view() const;
  std::string shape_text() const;  // [2, 512, 8, 64]
};

// Zeroed memory of that shape; throws UsageError when the size overflows or memory is short.
Tensor make_tensor(std::string name, ElementType type, std::vector<int64_t> shape);
// Element count, or -1 when a dimension is negative or the product (times 8) exceeds 2^62.
int64_t checked_numel(const std::vector<int64_t>& shape);
// Elements converted (floating types among each other; integers and booleans to floating types).
Tensor convert(const Tensor& tensor, ElementType type);
// Element `index` as a double, whatever the type.
double element(const Tensor& tensor, int64_t index);
// Of a tensor of a floating type, rounded to nearest even.
void set_element(Tensor& tensor, int64_t index, double value);

// A view by hand: strides in elements or null for contiguous.
DLTensor make_view(void* data, ElementType type, int rank, int64_t* shape, int64_t* strides);

}  // namespace anymask::cli
