#include "mask/digest.h"

#include <bit>
#include <cstring>

namespace anymask {
namespace {

__extension__ typedef unsigned __int128 Product;

uint64_t fold(uint64_t a, uint64_t b) {
  const Product product = static_cast<Product>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t avalanche(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 29)) * 0xa0761d6478bd642f;
  return x ^ (x >> 32);
}

}  // namespace

// The old state enters twice, once outside the product: an operand that happens to be 0 loses nothing of what came
// before.
void Hasher::step(uint64_t a, uint64_t b) {
  const uint64_t first = fold(low_ ^ a, b ^ 0xe7037ed1a0b428db), second = fold(high_ ^ b, a ^ 0x8ebc6af09c88c6e3);
  low_ = std::rotl(low_, 29) + first;
  high_ = std::rotl(high_, 37) + second + a;
}

void Hasher::add_words(const uint64_t* words, int64_t count) {
  add(static_cast<uint64_t>(count));
  int64_t i = 0;
  for (; i + 2 <= count; i += 2) step(words[i], words[i + 1]);
  if (i < count) step(words[i], 0x5bf03635f0935ad1);
}

void Hasher::add_bytes(const void* bytes, int64_t count) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  add(static_cast<uint64_t>(count));
  for (; count > 0; count -= 16, at += 16) {
    uint64_t pair[2] = {};
    std::memcpy(pair, at, static_cast<size_t>(count < 16 ? count : 16));
    step(pair[0], pair[1]);
  }
}

Digest Hasher::finish() const {
  const uint64_t low = avalanche(low_ ^ std::rotl(high_, 32)), high = avalanche(high_ + 0x2545f4914f6cdd1d * low_);
  return {low + fold(high, 0x9e3779b97f4a7c15), high ^ avalanche(low)};
}

void add_place(Hasher& hasher, const TensorView& view) {
  hasher.add(uint64_t{0x9b1d3f} + static_cast<uint64_t>(view.dtype));
  hasher.add(static_cast<uint64_t>(view.device.index));
  hasher.add(reinterpret_cast<uintptr_t>(view.data));
  for (int i = 0; i < view.rank; ++i) {
    hasher.add(static_cast<uint64_t>(view.shape[i]));
    hasher.add(static_cast<uint64_t>(view.stride[i]));
  }
}

Digest array_digest(const Array& array) {
  const TensorView& view = array.view;
  Hasher hasher;
  hasher.add(static_cast<uint64_t>(is_integer(view.dtype) ? DType::i64 : view.dtype));
  hasher.add(static_cast<uint64_t>(view.rank));
  for (int i = 0; i < view.rank; ++i) hasher.add(static_cast<uint64_t>(view.shape[i]));
  if (view.numel() == 0) return hasher.finish();
  if (array.on_device()) {
    add_place(hasher, view);
    return hasher.finish();
  }

  // Row by row along the last axis, each gathered into one buffer unless it is contiguous as it stands.
  const int last = view.rank - 1;
  const int64_t item = size_of(view.dtype), cols = view.shape[last];
  std::vector<int64_t> values;
  std::vector<std::byte> bytes;
  std::array<int64_t, max_rank> index{};
  for (;;) {
    int64_t offset = 0;
    for (int i = 0; i < last; ++i) offset += index[i] * view.stride[i];
    const auto* row = static_cast<const std::byte*>(view.data) + offset * item;
    if (view.stride[last] == 1 && view.dtype != DType::i32) {
      hasher.add_bytes(row, cols * item);
    } else if (is_integer(view.dtype)) {
      values.resize(static_cast<size_t>(cols));
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t at = c * view.stride[last];
        values[c] = view.dtype == DType::i32 ? reinterpret_cast<const int32_t*>(row)[at]
                                             : reinterpret_cast<const int64_t*>(row)[at];
      }
      hasher.add_bytes(values.data(), cols * 8);
    } else {
      bytes.resize(static_cast<size_t>(cols * item));
      for (int64_t c = 0; c < cols; ++c) {
        std::memcpy(bytes.data() + c * item, row + c * view.stride[last] * item, static_cast<size_t>(item));
      }
      hasher.add_bytes(bytes.data(), cols * item);
    }
    int axis = last - 1;
    while (axis >= 0 && ++index[axis] == view.shape[axis]) index[axis--] = 0;
    if (axis < 0) return hasher.finish();
  }
}

}  // namespace anymask
