// .npy in and out. What is refused stands in bad_input_test.cc.
#include "cli/io/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "cli/fixture.h"

namespace anymask::cli {
namespace {

Tensor parsed(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  Bytes view;
  view.data = reinterpret_cast<const uint8_t*>(owner->data());
  view.size = static_cast<int64_t>(owner->size());
  view.owner = std::shared_ptr<const void>(owner, owner->data());
  return parse_npy(view, "test");
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  const Directory directory;
  for (const ElementType type : {ElementType::f16, ElementType::f32, ElementType::f64}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {5}, {2, 3}, {2, 0, 4}, {2, 3, 4, 5}}) {
      const Tensor tensor = randoms("x", shape, type);
      save_npy(directory / "x.npy", tensor);
      const Tensor back = read_npy(directory / "x.npy", "x");
      EXPECT_EQ(back.type, type);
      ASSERT_EQ(back.shape, shape);
      if (tensor.bytes() > 0) {
        EXPECT_EQ(std::memcmp(back.data.get(), tensor.data.get(), static_cast<size_t>(tensor.bytes())), 0);
      }
    }
  }
  for (const ElementType type : {ElementType::i32, ElementType::i64, ElementType::u8, ElementType::boolean}) {
    save_npy(directory / "x.npy", ints("x", {3}, {1, 0, 1}, type));
    const Tensor back = read_npy(directory / "x.npy", "x");
    EXPECT_EQ(back.type, type);
    EXPECT_EQ(element(back, 0), 1);
    EXPECT_EQ(element(back, 1), 0);
  }
}

TEST(Npy, Bfloat16IsWidened) {
  const Directory directory;
  const Tensor tensor = randoms("x", {7}, ElementType::bf16);
  save_npy(directory / "x.npy", tensor);
  const Tensor back = read_npy(directory / "x.npy", "x");
  EXPECT_EQ(back.type, ElementType::f32);
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(element(back, i), element(tensor, i));
}

TEST(Npy, EveryVersionAndSpellingOfTheHeader) {
  const std::string data = std::string("\0\0\x80\x3f\0\0\0\x40", 8);  // 1, 2
  for (const int version : {1, 2, 3}) {
    const Tensor tensor =
        parsed(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }   \n", data, version));
    ASSERT_EQ(tensor.shape, std::vector<int64_t>{2});
    EXPECT_EQ(element(tensor, 1), 2);
  }
  EXPECT_EQ(element(parsed(npy_bytes(R"({"shape": (2L,), "fortran_order": True, "descr": "<f4"})", data)), 0), 1);
  EXPECT_EQ(parsed(npy_bytes("{'descr': '<V2', 'fortran_order': False, 'shape': (2, 2)}", data)).type,
            ElementType::u16);
}

TEST(Npy, FortranOrderIsTurned) {
  // [[1, 2], [3, 4], [5, 6]] down the columns.
  const Tensor tensor = parsed(npy_bytes("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2), }", "\1\3\5\2\4\6"));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(element(tensor, i), i + 1);
}

TEST(Npy, MisalignedElementsAreCopied) {
  const Tensor tensor =
      parsed(npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", std::string("\0\0\x80\x3f", 4)));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data.get()) % 4, 0u);
  EXPECT_EQ(element(tensor, 0), 1);
}

TEST(OutputFiles, LeaveNothingBehindUnlessCommitted) {
  const Directory directory;
  const std::vector<std::string> before = directory.names();
  {
    OutputFiles files;
    files.make_directory(directory / "a/b");
    files.write(files.open(directory / "a/b/c.npy"), "text", 4);
    EXPECT_EQ(directory.names().size(), 3u);
  }
  EXPECT_EQ(directory.names(), before);
  {
    OutputFiles files;
    files.make_directory(directory / "a/b");
    files.write(files.open(directory / "a/b/c.npy"), "text", 4);
    files.commit();
  }
  EXPECT_EQ(directory.names(), (std::vector<std::string>{directory / "a", directory / "a/b", directory / "a/b/c.npy"}));
  EXPECT_EQ(read_text_file(directory / "a/b/c.npy", "c"), "text");
}

}  // namespace
}  // namespace anymask::cli
