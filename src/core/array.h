// An array a mask refers to: offsets, parents, packed bits, a block map, a bias. Owned or borrowed; never changed by
// us. One in device memory is borrowed, and known to the host by its shape and type alone.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace anymask {

struct Array {
  TensorView view;  // rank 1-4, any strides
  std::shared_ptr<const void>
      owner;         // keeps owned memory alive; null when borrowed: the caller keeps it alive and unchanged
  std::string name;  // "cu" for @cu; empty for inline lists

  static Array own(std::vector<int64_t> values, std::string name = "");  // rank 1, int64
  static Array own(const TensorView& source, std::string name = "");     // copies, contiguous
  static Array borrow(const TensorView& source, std::string name = "");

  bool owned() const { return owner != nullptr; }
  bool on_device() const { return view.device.kind != DeviceKind::cpu; }
  // Element `index` of a rank-1 integer array.
  int64_t integer(int64_t index) const {
    const int64_t at = index * view.stride[0];
    return view.dtype == DType::i32 ? view.as<const int32_t>()[at] : view.as<const int64_t>()[at];
  }
};

}  // namespace anymask
