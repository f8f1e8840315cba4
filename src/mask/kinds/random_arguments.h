// Random arguments for the kinds' examples: the same on every machine, since only the generator's raw numbers are used.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "mask/registry.h"

namespace anymask::example {

// In [low, high].
inline int64_t pick(std::mt19937_64& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % (static_cast<uint64_t>(high - low) + 1));
}
inline bool chance(std::mt19937_64& rng, int64_t one_in) { return pick(rng, 1, one_in) == 1; }

// Elements in row-major order as an owned array; now and then with strides, and junk between the elements.
inline Array arrange(std::mt19937_64& rng, DType type, const std::vector<int64_t>& shape, const void* elements) {
  const int64_t item = size_of(type);
  Array array;
  TensorView& view = array.view;
  view.dtype = type;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  const bool strided = chance(rng, 3);
  int64_t stride = strided ? pick(rng, 1, 3) : 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.stride[i] = stride;
    stride = stride * std::max<int64_t>(shape[i], 1) + (strided ? pick(rng, 0, 2) : 0);
  }
  auto memory =
      std::make_shared<std::vector<uint64_t>>(static_cast<size_t>((stride * item + 7) / 8 + 1), 0x7f7f7f7f7f7f7f7f);
  auto* bytes = reinterpret_cast<std::byte*>(memory->data());
  for (int64_t n = 0; n < view.numel(); ++n) {
    int64_t rest = n, offset = 0;
    for (int i = view.rank - 1; i >= 0; --i) {
      offset += rest % shape[i] * view.stride[i];
      rest /= shape[i];
    }
    std::memcpy(bytes + offset * item, static_cast<const std::byte*>(elements) + n * item, static_cast<size_t>(item));
  }
  view.data = bytes;
  array.owner = std::move(memory);
  return array;
}

// Integers as int32 or int64.
inline Array integers(std::mt19937_64& rng, const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
  if (chance(rng, 2)) return arrange(rng, DType::i64, shape, values.data());
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return arrange(rng, DType::i32, shape, narrow.data());
}

inline Array bytes(std::mt19937_64& rng, DType type, const std::vector<int64_t>& shape,
                   const std::vector<uint8_t>& values) {
  return arrange(rng, type, shape, values.data());
}

// Leading axes of an array of planes: none, or [b or 1, heads or 1]. Returns how many planes.
inline int64_t plane_axes(std::mt19937_64& rng, const ExampleShape& shape, std::vector<int64_t>& axes) {
  if (chance(rng, 2)) return 1;
  axes.push_back(chance(rng, 2) ? 1 : shape.batch);
  const int64_t heads[] = {1, shape.h_kv, shape.h_q};
  axes.push_back(heads[pick(rng, 0, 2)]);
  return axes[0] * axes[1];
}

inline int64_t rows_or_one(std::mt19937_64& rng, int64_t rows) { return chance(rng, 4) ? 1 : rows; }

// n ascending offsets from 0 to last; the documents between them may be empty.
inline std::vector<int64_t> offsets(std::mt19937_64& rng, int64_t documents, int64_t last) {
  std::vector<int64_t> result{0};
  for (int64_t i = 1; i < documents; ++i) result.push_back(pick(rng, 0, last));
  if (documents > 0) result.push_back(last);
  std::sort(result.begin(), result.end());
  return result;
}

inline void maybe_top_left(std::mt19937_64& rng, std::vector<MaskArgument>& arguments) {
  if (chance(rng, 4)) arguments.push_back({"align", std::string("top_left")});
}

}  // namespace anymask::example
