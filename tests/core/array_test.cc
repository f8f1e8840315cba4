// Arrays: copies of any strides, ownership, refusals; and the 16-bit floats.
#include "core/array.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace anymask {
namespace {

TensorView view_of(void* data, DType type, std::initializer_list<int64_t> shape,
                   std::initializer_list<int64_t> stride) {
  TensorView view;
  view.data = data;
  view.dtype = type;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  std::copy(stride.begin(), stride.end(), view.stride.begin());
  return view;
}

TEST(Array, CopiesAnyStrides) {
  std::vector<int32_t> values(24);
  for (int32_t i = 0; i < 24; ++i) values[static_cast<size_t>(i)] = i;
  // [2, 3, 4] transposed to [4, 2, 3], and the middle axis expanded.
  const Array transposed = Array::own(view_of(values.data(), DType::i32, {4, 2, 3}, {1, 12, 4}), "t");
  ASSERT_TRUE(transposed.owned());
  EXPECT_EQ(transposed.name, "t");
  EXPECT_EQ(transposed.view.stride[0], 6);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(transposed.view.as<int32_t>()[i * 6 + j * 3 + k], i + 12 * j + 4 * k);
    }
  }
  const Array expanded = Array::own(view_of(values.data(), DType::i32, {2, 5, 2}, {4, 0, 1}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(expanded.view.as<int32_t>()[i * 10 + j * 2 + 1], 4 * i + 1);
  }
  values.assign(24, -1);
  EXPECT_EQ(transposed.view.as<int32_t>()[23], 23) << "owns its copy";
}

TEST(Array, ReadsIntegersOfBothWidths) {
  std::vector<int32_t> narrow{3, -1, 5};
  EXPECT_EQ(Array::borrow(view_of(narrow.data(), DType::i32, {2}, {2})).integer(1), 5);
  const Array wide = Array::own({int64_t{1} << 40, -7}, "w");
  EXPECT_EQ(wide.integer(0), int64_t{1} << 40);
  EXPECT_EQ(wide.integer(1), -7);
  EXPECT_FALSE(Array::borrow(wide.view).owned());
}

TEST(Array, OfNoElementsNeedsNoMemory) {
  const Array empty = Array::own(view_of(nullptr, DType::u8, {0, 7}, {7, 1}));
  EXPECT_TRUE(empty.view.defined());
  EXPECT_EQ(empty.view.numel(), 0);
  EXPECT_EQ(Array::own(std::vector<int64_t>{}).view.shape[0], 0);
}

TEST(Array, RefusesWhatIsNoArray) {
  int64_t value = 0;
  EXPECT_THROW(Array::own(view_of(nullptr, DType::i64, {2}, {1})), Error);
  EXPECT_THROW(Array::borrow(view_of(nullptr, DType::i64, {2}, {1})), Error);
  EXPECT_THROW(Array::own(view_of(&value, DType::i64, {}, {})), Error);
  EXPECT_THROW(Array::own(view_of(&value, DType::i64, {-1}, {1})), Error);
  EXPECT_THROW(Array::own(view_of(&value, DType::i64, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0})), Error);
  TensorView cuda = view_of(&value, DType::i64, {1}, {1});
  cuda.device = {DeviceKind::cuda, 0};
  EXPECT_THROW(Array::own(cuda), Error);
  EXPECT_EQ(Array::borrow(cuda).view.device.kind, DeviceKind::cuda);
}

// Every 16-bit float widens exactly and comes back; what lies between rounds to the nearer, ties to even.
TEST(HalfFloats, ConvertExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float a = f16_to_f32(half), b = bf16_to_f32(half);
    if (std::isnan(a)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(a))));
    } else {
      EXPECT_EQ(f32_to_f16(a), half);
      // Independent of the bit tricks: mantissa times a power of two.
      const int exponent = (half >> 10) & 31, mantissa = half & 1023;
      const double magnitude = exponent == 31  ? HUGE_VAL
                               : exponent == 0 ? std::ldexp(mantissa, -24)
                                               : std::ldexp(1024 + mantissa, exponent - 25);
      EXPECT_EQ(static_cast<double>(a), half & 0x8000 ? -magnitude : magnitude);
    }
    if (std::isnan(b)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(b))));
    } else {
      EXPECT_EQ(f32_to_bf16(b), half);
    }
    if (bits < 0x7bff) {
      const float next = f16_to_f32(static_cast<uint16_t>(bits + 1)), middle = (a + next) / 2;
      EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits);
      EXPECT_EQ(f32_to_f16(middle), bits % 2 == 0 ? bits : bits + 1);
      EXPECT_EQ(f32_to_f16(std::nextafter(middle, HUGE_VALF)), bits + 1);
    }
  }
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
}

}  // namespace
}  // namespace anymask
