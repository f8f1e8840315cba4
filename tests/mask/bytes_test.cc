// The serialised form: every corruption is refused, none crashes, nothing is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/error.h"
#include "mask/bound_mask.h"
#include "mask/registry.h"

namespace anymask {
namespace {

Mask sample() {
  const Array cu = Array::own({0, 3, 8}, "cu");
  return Mask::parse("~(causal & documents(@cu)) | tree([-1, 0, 1], 2) & per_head([window(3, 0), documents(@cu)])",
                     {&cu, 1});
}

TEST(Bytes, StoreOneArrayOnce) {
  const std::vector<uint8_t> bytes = sample().to_bytes();
  const Mask read = Mask::from_bytes(bytes);
  EXPECT_TRUE(read == sample());
  ASSERT_EQ(read.program().arrays.size(), 3u);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()).find("cu"), std::string(bytes.begin(), bytes.end()).rfind("cu"));
}

TEST(Bytes, RefuseEveryTruncationAndEveryTail) {
  std::vector<uint8_t> bytes = sample().to_bytes();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(Mask::from_bytes({bytes.data(), size}), Error) << size;
  bytes.push_back(0);
  EXPECT_THROW(Mask::from_bytes(bytes), Error);
}

TEST(Bytes, RefuseOtherMagicAndVersions) {
  std::vector<uint8_t> bytes = sample().to_bytes();
  bytes[0] = 'B';
  EXPECT_THROW(Mask::from_bytes(bytes), Error);
  bytes[0] = 'A';
  bytes[4] = 2;
  try {
    Mask::from_bytes(bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("have version 2; expected 1"));
  }
}

// A changed byte gives an error or another mask that is whole: it prints, compares and binds or is refused.
TEST(Bytes, ChangedAnywhereGiveAnErrorOrAWholeMask) {
  const std::vector<uint8_t> bytes = sample().to_bytes();
  const std::vector<Sequence> sequences{{.batch = 0, .q_begin = 0, .s_q = 8, .kv_begin = 0, .s_kv = 8}};
  int refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {1, 2, 16, 128, 255}) {
      std::vector<uint8_t> changed = bytes;
      changed[i] = static_cast<uint8_t>(changed[i] ^ change);
      try {
        const Mask mask = Mask::from_bytes(changed);
        EXPECT_TRUE(Mask::from_bytes(mask.to_bytes()) == mask);
        EXPECT_TRUE(Mask::parse(mask.str(), mask.program().arrays) == mask);
        anymask::bind(mask, sequences, 2, 1);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

class Writer {
 public:
  Writer() { bytes_ = {'A', 'M', 'S', 'K', 1, 0, 0, 0}; }
  template <class T>
  Writer& put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
    return *this;
  }
  Writer& code(std::initializer_list<std::pair<Op, uint32_t>> code) {
    put(uint64_t{code.size()});
    for (const auto& [op, arity] : code) put(static_cast<uint16_t>(op)).put(arity);
    return *this;
  }
  Writer& ints(std::initializer_list<int64_t> values) {
    put(uint64_t{values.size()});
    for (const int64_t value : values) put(value);
    return *this;
  }
  Writer& no_arrays() { return put(uint64_t{0}).put(uint64_t{0}); }
  std::string error() const {
    try {
      Mask::from_bytes(bytes_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::vector<uint8_t> bytes_;
};

TEST(Bytes, RefuseIllFormedPrograms) {
  using testing::HasSubstr;
  EXPECT_EQ(Writer().code({{Op::full, 0}}).ints({}).no_arrays().error(), "");
  EXPECT_EQ(Writer().code({{Op::full, 0}, {Op::causal, 0}, {Op::op_and, 2}}).ints({0}).no_arrays().error(), "");
  EXPECT_THAT(Writer().code({}).ints({}).no_arrays().error(), HasSubstr("operands over"));
  EXPECT_THAT(Writer().code({{Op::full, 0}, {Op::full, 0}}).ints({}).no_arrays().error(), HasSubstr("operands over"));
  EXPECT_THAT(Writer().code({{Op::full, 0}, {Op::op_and, 2}}).ints({}).no_arrays().error(), HasSubstr("lack operands"));
  EXPECT_THAT(Writer().code({{Op::full, 0}, {Op::op_and, 1}}).ints({}).no_arrays().error(),
              HasSubstr("wrong number of operands"));
  EXPECT_THAT(Writer().code({{Op::full, 0}, {Op::op_not, 0}}).ints({}).no_arrays().error(),
              HasSubstr("wrong number of operands"));
  EXPECT_THAT(Writer().code({{Op::per_head, 0}}).ints({}).no_arrays().error(), HasSubstr("wrong number of operands"));
  EXPECT_THAT(Writer().code({{Op::full, 1}}).ints({}).no_arrays().error(), HasSubstr("unknown mask"));
  EXPECT_THAT(Writer().code({{static_cast<Op>(999), 0}}).ints({}).no_arrays().error(), HasSubstr("unknown mask 999"));
  EXPECT_THAT(Writer().code({{Op::full, 0}, {static_cast<Op>(1005), 1}}).ints({}).no_arrays().error(),
              HasSubstr("unknown operator 1005"));
  EXPECT_THAT(Writer()
                  .code({{Op::full, 0}, {Op::full, 0}, {Op::op_or, 2}, {Op::full, 0}, {Op::op_or, 2}})
                  .ints({})
                  .no_arrays()
                  .error(),
              HasSubstr("nest an operator in itself"));
  EXPECT_THAT(Writer().code({{Op::causal, 0}}).ints({}).no_arrays().error(), HasSubstr("wrong arguments of `causal`"));
  EXPECT_THAT(Writer().code({{Op::causal, 0}}).ints({2}).no_arrays().error(), HasSubstr("wrong arguments of `causal`"));
  EXPECT_THAT(Writer().code({{Op::causal, 0}}).ints({0, 0}).no_arrays().error(),
              HasSubstr("integers that no mask takes"));
  EXPECT_THAT(Writer().code({{Op::window, 0}}).ints({-5, 0, 0}).no_arrays().error(), HasSubstr("left is -5"));
  EXPECT_THAT(Writer().code({{Op::prefix, 0}}).ints({2, -5}).no_arrays().error(), HasSubstr("expected 0 or more"));
  EXPECT_THAT(Writer().code({{Op::prefix, 0}}).ints({3, 5}).no_arrays().error(),
              HasSubstr("wrong arguments of `prefix`"));
  EXPECT_THAT(Writer().code({{Op::documents, 0}}).ints({1, 0, 0, 0, 0}).no_arrays().error(),
              HasSubstr("wrong number of arrays"));
  EXPECT_THAT(Writer().put(~uint64_t{0}).error(), HasSubstr("instructions in 0 bytes"));
  EXPECT_THAT(Writer().code({{Op::full, 0}}).put(uint64_t{1} << 61).error(), HasSubstr("integers in 0 bytes"));
  const auto with_array = [](std::initializer_list<int64_t> shape, int type, uint32_t reference, size_t elements) {
    Writer writer;
    writer.code({{Op::documents, 0}}).ints({1, 0, 0, 0, 0}).put(uint64_t{1}).put(uint16_t{0});
    writer.put(static_cast<uint8_t>(type)).put(static_cast<uint8_t>(shape.size()));
    for (const int64_t extent : shape) writer.put(extent);
    for (size_t i = 0; i < elements; ++i) writer.put(int64_t{0});
    return writer.put(uint64_t{1}).put(reference).error();
  };
  EXPECT_EQ(with_array({2}, 5, 0, 2), "");
  EXPECT_THAT(with_array({2}, 5, 1, 2), HasSubstr("not there"));
  EXPECT_THAT(with_array({2}, 8, 0, 2), HasSubstr("type 8"));
  EXPECT_THAT(with_array({-2}, 5, 0, 2), HasSubstr("negative extent"));
  EXPECT_THAT(with_array({int64_t{1} << 62}, 5, 0, 2), HasSubstr("more elements than there are bytes"));
  EXPECT_THAT(with_array({int64_t{1} << 32, int64_t{1} << 32}, 5, 0, 2),
              HasSubstr("more elements than there are bytes"));
  EXPECT_THAT(with_array({}, 5, 0, 2), HasSubstr("rank 0"));
  EXPECT_THAT(with_array({1, 1, 1, 1, 2}, 5, 0, 2), HasSubstr("rank 5"));
  EXPECT_THAT(with_array({2}, 0, 0, 1), HasSubstr("expected int32 or int64"));
}

TEST(Bytes, RefuseNestingBeyondTheLimit) {
  Writer writer;
  writer.put(uint64_t{20001}).put(static_cast<uint16_t>(Op::full)).put(uint32_t{0});
  for (int i = 0; i < 20000; ++i) writer.put(static_cast<uint16_t>(Op::op_not)).put(uint32_t{1});
  writer.ints({}).no_arrays();
  EXPECT_THAT(writer.error(), testing::HasSubstr("nest more than"));
}

}  // namespace
}  // namespace anymask
