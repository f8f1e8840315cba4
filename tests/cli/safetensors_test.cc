// .safetensors in and out. What is refused stands in bad_input_test.cc.
#include "cli/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "cli/args.h"
#include "cli/fixture.h"

namespace anymask::cli {
namespace {

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const Directory directory;
  const std::vector<Tensor> tensors = {randoms("a", {2, 3}),
                                       randoms("b", {5}, ElementType::bf16),
                                       randoms("c", {3, 1}, ElementType::f16),
                                       randoms("d", {2}, ElementType::f64),
                                       ints("e", {3}, {1, 2, 3}),
                                       ints("f", {2}, {1, 2}, ElementType::i64),
                                       ints("g", {3}, {1, 0, 1}, ElementType::boolean),
                                       ints("h", {0, 4}, {})};
  save_safetensors(directory / "x.safetensors", tensors);
  const SafetensorsFile file = read_safetensors(directory / "x.safetensors", "test");
  EXPECT_EQ(file.tensors.size(), tensors.size());
  for (const Tensor& tensor : tensors) {
    const Tensor* back = file.find(tensor.name, "test");
    ASSERT_NE(back, nullptr) << tensor.name;
    EXPECT_EQ(back->type, tensor.type);
    EXPECT_EQ(back->shape, tensor.shape);
    if (tensor.bytes() > 0) {
      EXPECT_EQ(std::memcmp(back->data.get(), tensor.data.get(), static_cast<size_t>(tensor.bytes())), 0);
    }
  }
  EXPECT_EQ(file.find("z", "test"), nullptr);
}

TEST(Safetensors, TypesWithoutUseAreRefusedOnlyWhenAskedFor) {
  const Directory directory;
  write_bytes(
      directory / "x.safetensors",
      safetensors_bytes(
          R"({"w":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[0,2]},"q":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},)"
          R"("__metadata__":{"format":"pt"}})",
          "abcd"));
  const SafetensorsFile file = read_safetensors(directory / "x.safetensors", "test");
  ASSERT_NE(file.find("q", "test"), nullptr);
  EXPECT_EQ(element(*file.find("q", "test"), 0), 'c');
  EXPECT_THROW(file.find("w", "test"), UsageError);
}

TEST(Safetensors, MisalignedElementsAreCopied) {
  const Directory directory;
  write_bytes(
      directory / "x.safetensors",
      safetensors_bytes(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
          std::string("\7\0\0\x80\x3f", 5)));
  const SafetensorsFile file = read_safetensors(directory / "x.safetensors", "test");
  const Tensor* b = file.find("b", "test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data.get()) % 4, 0u);
  EXPECT_EQ(element(*b, 0), 1);
}

}  // namespace
}  // namespace anymask::cli
