#include "api/host_mask.h"

#include <algorithm>
#include <vector>

#include "api/view.h"
#include "backend/device_memory.h"

namespace anymask {
namespace {

// All bytes that the view spans, then the elements among them.
Array copy_of(const Array& array) {
  const Span span = span_of(array.view);
  std::vector<std::byte> bytes(span.end - span.begin);
  if (!bytes.empty()) {
    device_wait(array.view.device.index);
    device_copy(bytes.data(), reinterpret_cast<const void*>(span.begin), bytes.size());
  }
  TensorView view = array.view;
  view.device = {};
  view.data = bytes.data() + (reinterpret_cast<uintptr_t>(array.view.data) - span.begin);
  return Array::own(view, array.name);
}

}  // namespace

Mask on_host(const Mask& mask) {
  std::vector<Array> arrays = mask.program().arrays;
  if (std::none_of(arrays.begin(), arrays.end(), [](const Array& array) { return array.on_device(); })) return mask;
  for (Array& array : arrays) {
    if (array.on_device()) array = copy_of(array);
  }
  return mask.with_arrays(std::move(arrays));
}

}  // namespace anymask
