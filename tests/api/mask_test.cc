// Masks through the C++ API: every factory, the algebra, text, bytes, what they keep; and the C functions' own errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

#include <cstring>
#include <functional>

namespace {

using namespace anymask;
using testing::HasSubstr;

// Plane of sequence 0, head 0 as rows of # and . characters.
std::string picture(const Mask& mask, int64_t s_q, int64_t s_kv, int64_t sequence = 0, int64_t head = 0,
                    int64_t batch = 1, int64_t heads = 1) {
  std::vector<uint8_t> dense(static_cast<size_t>(s_q * s_kv), 2);
  mask.dense({.s_q = s_q, .s_kv = s_kv, .batch = batch, .h_q = heads}, Tensor(dense, {s_q, s_kv}), sequence, head);
  std::string text;
  for (int64_t q = 0; q < s_q; ++q) {
    for (int64_t kv = 0; kv < s_kv; ++kv) text += dense[static_cast<size_t>(q * s_kv + kv)] == 1 ? '#' : '.';
    text += q + 1 < s_q ? "/" : "";
  }
  return text;
}

// An array said to lie on a device: borrowed, known by its place, and not read by a mask's own functions.
TEST(Mask, ArraysOnADeviceAreBorrowed) {
  static const std::vector<int64_t> cu = {0, 1, 3}, other = {0, 1, 3};
  const auto there = [](const std::vector<int64_t>& values) {
    return Tensor(values.data(), DType::int64, {3}, {}, {kDLCUDA, 0});
  };
  const Mask mask = causal() & documents(there(cu));
  EXPECT_EQ(mask.str(), "causal & documents(@array0)");
  EXPECT_TRUE(mask == (causal() & documents(there(cu))));
  EXPECT_FALSE(mask == (causal() & documents(there(other))));
  EXPECT_EQ(mask.digest(), (causal() & documents(there(cu))).digest());

  anymask_argument argument = {};
  argument.type = ANYMASK_ARG_ARRAY;
  const Tensor view = there(cu);
  const DLTensor dl = view.dlpack();
  argument.array = {nullptr, &dl, 1};
  anymask_mask_t made = nullptr;
  EXPECT_EQ(anymask_mask_leaf("documents", &argument, 1, &made), ANYMASK_INVALID_ARGUMENT);
  EXPECT_THAT(anymask_last_error(), HasSubstr("is on CUDA device 0 and to be copied"));
  EXPECT_THAT(anymask_last_error(), HasSubstr("borrow it (copy = 0)"));
}

TEST(Mask, EveryFactoryKeepsWhatItSays) {
  EXPECT_EQ(picture(full(), 2, 3), "###/###");
  EXPECT_EQ(picture(Mask(), 2, 3), "###/###");
  EXPECT_EQ(picture(none(), 2, 3), ".../...");
  EXPECT_EQ(picture(causal(), 2, 3), "##./###");
  EXPECT_EQ(picture(causal(Align::top_left), 2, 3), "#../##.");
  EXPECT_EQ(picture(window(1, 0), 3, 3), "#../##./.##");
  EXPECT_EQ(picture(window(-1, 1, Align::top_left), 2, 4), "##../###.");
  EXPECT_EQ(picture(keys(1, 3), 2, 4), ".##./.##.");
  EXPECT_EQ(picture(positions(1, 2), 3, 3), ".../###/...");
  EXPECT_EQ(picture(prefix(2), 2, 4), "##../##..");
  EXPECT_EQ(picture(prefix(Array({1, 3})), 1, 4, 1, 0, 2), "###.");
  EXPECT_EQ(picture(documents({0, 1, 3}), 3, 3), "#../.##/.##");
  EXPECT_EQ(picture(documents({0, 2}, {0, 3}), 2, 3), "###/###");
  EXPECT_EQ(picture(documents({0, 1, 2}, {0, 1, 3}), 2, 3), "#../.##");
  EXPECT_EQ(picture(chunked(2), 4, 4), "##../##../..##/..##");
  EXPECT_EQ(picture(stride(2), 3, 3), "#.#/.#./#.#");
  EXPECT_EQ(picture(shared_prefix(1, {1, 2}), 4, 4), "#.../##../#.#./#.##");
  EXPECT_EQ(picture(tree({-1, 0, 0}), 3, 3), "#../##./#.#");
  EXPECT_EQ(picture(tree({-1, 0, 0}, 1), 4, 4), "#.../##../###./##.#");
  const std::vector<uint8_t> map = {1, 0, 0, 1};
  EXPECT_EQ(picture(blocks(Tensor(map, {2, 2}), 2, 2), 3, 4), "##../##../..##");
  const std::vector<uint8_t> packed = {0b101, 0b010};
  EXPECT_EQ(picture(bits(Tensor(packed, {2, 1})), 2, 3), "#.#/.#.");
  EXPECT_EQ(picture(dense(Tensor(map, {2, 2})), 2, 2), "#./.#");
  const std::vector<int32_t> begin = {0, 1}, end = {1, 3};
  EXPECT_EQ(picture(row_intervals(Tensor(begin, {2, 1}), Tensor(end, {2, 1})), 2, 3), "#../.##");
  EXPECT_EQ(picture(col_intervals(Tensor(begin, {2, 1}), Tensor(end, {2, 1})), 3, 2), "#./.#/.#");
  EXPECT_EQ(picture(neighborhood({4}, {3}), 4, 4), "###./###./.###/.###");
  EXPECT_EQ(picture(neighborhood({6}, {3}, {2}), 6, 6), "#.#.#./.#.#.#/#.#.#./.#.#.#/#.#.#./.#.#.#");
  EXPECT_EQ(picture(block_diffusion(2, 1), 4, 4), "#.../.##./..#./..##");
  const std::vector<float> bias = {-1, 0.5f, 2};
  EXPECT_EQ(picture(threshold(Tensor(bias, {1, 3}), 0.5), 2, 3), ".##/.##");
  const std::vector<float> ties = {3, 1, 2, 3};
  EXPECT_EQ(picture(topk(Tensor(ties, {1, 4}), 1), 2, 4), "#.../#...");
  EXPECT_EQ(picture(topk(Tensor(ties, {1, 4}), 2, causal()), 4, 4), "#.../##../#.#./#..#");
  EXPECT_EQ(picture(topk(Tensor(ties, {1, 4}), 2) & causal(), 4, 4), "#.../#.../#.../#..#");
  EXPECT_EQ(picture(~topk(Tensor(ties, {1, 4}), 1, topk(Tensor(ties, {1, 4}), 3, keys(1, 4))), 1, 4), "###.");
  EXPECT_EQ(picture(per_batch({causal(), full()}), 2, 2, 1, 0, 2), "##/##");
  EXPECT_EQ(picture(per_head({causal(), none()}), 2, 2, 0, 1, 1, 2), "../..");
  EXPECT_EQ(picture((causal() & ~keys(0, 1)) | positions(0, 1), 3, 3), "###/.#./.##");
}

TEST(Mask, TextComesBack) {
  const std::vector<int64_t> cu = {0, 3, 16};
  for (const Mask& m :
       {causal(), (causal() & documents(cu)) | keys(0, 4), ~window(3, -1), per_head({full(), causal()}), Mask()}) {
    EXPECT_EQ(parse(m.str()), m) << m.str();
    EXPECT_EQ(parse(m.str()).digest(), m.digest()) << m.str();
  }
  EXPECT_EQ(((causal() & documents(Array(cu).named("cu"))) | keys(0, 4)).str(), "causal & documents(@cu) | keys(0, 4)");
  EXPECT_EQ(parse("documents(@cu)", {Array(cu).named("cu")}), documents(cu));
  EXPECT_NE(causal(), window(-1, 1));
}

TEST(Mask, BytesComeBack) {
  const Mask m = causal() & documents({0, 3, 16});
  const std::vector<uint8_t> bytes = m.bytes();
  EXPECT_EQ(Mask::from_bytes(bytes), m);
  for (size_t cut : {size_t{0}, size_t{1}, bytes.size() / 2, bytes.size() - 1})
    EXPECT_THROW(Mask::from_bytes(std::span(bytes).first(cut)), Error) << cut;
}

TEST(Mask, BorrowedArraysAreReadWhenUsed) {
  std::vector<int64_t> cu = {0, 1, 3};
  const Mask borrowed = documents(Array::borrow(Tensor(cu, {3}))), copied = documents(Array(Tensor(cu, {3})));
  cu[1] = 2;
  EXPECT_EQ(picture(borrowed, 3, 3), "##./##./..#");
  EXPECT_EQ(picture(copied, 3, 3), "#../.##/.##");
}

TEST(Mask, SelectHoldsWhatWasSelected) {
  std::vector<float> bias = {3, 1, 2, 0};
  const Mask borrowed = topk(Array::borrow(Tensor(bias, {1, 4})), 2);
  const Mask held = borrowed.select({.s_q = 2, .s_kv = 4});
  EXPECT_EQ(held, borrowed);
  EXPECT_EQ(picture(held, 2, 4), "#.#./#.#.");
  bias[3] = 9;  // against the promise, to see what is read: the row's threshold stays, the values are today's
  EXPECT_EQ(picture(held, 2, 4), "#.##/#.##");
  EXPECT_EQ(picture(held, 1, 4), "#..#");  // other lengths select
  EXPECT_EQ(picture(borrowed, 2, 4), "#..#/#..#");
  EXPECT_EQ(causal().select({.s_q = 2, .s_kv = 2}), causal());
  EXPECT_THROW(borrowed.select({.s_q = 2, .s_kv = 5}), Error);
}

TEST(Mask, CountsPairsOverSequencesAndHeads) {
  EXPECT_EQ(causal().count({.s_q = 4, .s_kv = 4, .batch = 3, .h_q = 2}).kept, 10 * 6);
  EXPECT_EQ(causal().count({.s_q = 4, .s_kv = 4, .batch = 3, .h_q = 2}).pairs, 16 * 6);
  EXPECT_EQ(per_head({none(), full()}).count({.s_q = 2, .s_kv = 2, .h_q = 4, .h_kv = 2}).kept, 8);
  EXPECT_DOUBLE_EQ(causal().density({.s_q = 4, .s_kv = 4}), 10.0 / 16);
  EXPECT_EQ(causal().density({.s_q = 0, .s_kv = 4}), 0);
  const std::vector<int32_t> cu = {0, 2, 5};
  EXPECT_EQ(causal().count({.h_q = 2, .cu_seqlens_q = Tensor(cu, {3})}).kept, (3 + 6) * 2);
  EXPECT_EQ(full().count({.s_q = 1'000'000, .s_kv = 1'000'000}).kept, 1'000'000'000'000);
}

TEST(Mask, PartsOfAPlane) {
  std::vector<uint8_t> part(6, 9);
  causal().dense({.s_q = 10, .s_kv = 10}, Tensor(part.data(), DType::boolean, {2, 3}), 0, 0, 4, 4);
  EXPECT_EQ(part, (std::vector<uint8_t>{1, 0, 0, 1, 1, 0}));
  std::vector<float> cells(4);
  causal().coverage({.s_q = 4, .s_kv = 4}, Tensor(cells, {2, 2}));
  EXPECT_EQ(cells, (std::vector<float>{0.75f, 0, 1, 0.75f}));
}

TEST(Mask, RandomMasksRepeat) {
  const Lengths lengths = {.s_q = 20, .s_kv = 24, .batch = 2, .h_q = 4, .h_kv = 2};
  EXPECT_EQ(random_mask(5, lengths), random_mask(5, lengths));
  bool differ = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Mask m = random_mask(seed, lengths, 5);
    EXPECT_LE(m.count(lengths).kept, 20 * 24 * 8) << m.str();
    differ = differ || m != random_mask(seed + 1, lengths, 5);
  }
  EXPECT_TRUE(differ);
  const std::vector<int32_t> cu_q = {0, 5, 5, 9}, cu_kv = {0, 2, 6, 13};
  const Lengths packed = {.h_q = 2, .cu_seqlens_q = Tensor(cu_q, {4}), .cu_seqlens_kv = Tensor(cu_kv, {4})};
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_NO_THROW(random_mask(seed, packed).count(packed)) << seed;
}

TEST(Mask, KindsAreListed) {
  const std::string json = mask_kinds();
  for (const char* name : {"full", "causal", "documents", "tree", "block_diffusion", "threshold", "topk", "per_head"})
    EXPECT_THAT(json, HasSubstr("\"name\": \"" + std::string(name) + "\""));
}

// ---- errors

void expect_error(const std::function<void()>& body, std::vector<const char*> says) {
  try {
    body();
    ADD_FAILURE() << "no error: " << says[0];
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), Status::invalid_argument) << e.what();
    for (const char* text : says) EXPECT_THAT(e.what(), HasSubstr(text));
  }
}

TEST(MaskErrors, Teach) {
  std::vector<uint8_t> out(100);
  std::vector<float> floats(100);
  const Lengths lengths = {.s_q = 4, .s_kv = 4};
  expect_error([] { parse("causl"); }, {"causl", "causal"});
  expect_error([] { parse("documents(@cu)"); }, {"cu"});
  expect_error([] { parse("documents(@cu)", {Array({0, 3})}); }, {"mask parse", "no name"});
  expect_error([] { window(-2, 0); }, {"window", "-2"});
  expect_error([] { chunked(0); }, {"chunked", "0"});
  expect_error([] { Mask::leaf("windw", {}); }, {"windw", "window"});
  expect_error([&] { documents({0, 3}).count(lengths); }, {"documents", "3", "4"});
  expect_error([&] { causal().dense(lengths, Tensor(out, {4, 4}), 1); }, {"mask dense", "sequence is 1"});
  expect_error([&] { causal().dense(lengths, Tensor(out, {4, 4}), 0, -1); }, {"head is -1"});
  expect_error([&] { causal().dense(lengths, Tensor(out, {4, 5})); }, {"out has shape [4, 5]", "4 keys"});
  expect_error([&] { causal().dense(lengths, Tensor(out, {4, 4}), 0, 0, 1); }, {"from row 1"});
  expect_error([&] { causal().dense(lengths, Tensor(floats, {4, 4})); }, {"out is float32", "bool or uint8"});
  expect_error([&] { causal().dense(lengths, Tensor(out, {16})); }, {"expected rank 2"});
  expect_error([&] { causal().dense(lengths, Tensor(out.data(), {4, 4}, {0, 1})); }, {"overlapping"});
  expect_error([&] { causal().dense(lengths, {}); }, {"out is NULL"});
  expect_error([&] { causal().coverage(lengths, Tensor(out, {2, 2})); }, {"mask coverage", "expected float32"});
  expect_error([] { causal().count({.s_q = -1, .s_kv = 4}); }, {"s_q", "-1"});
  expect_error([] { causal().count({.s_q = int64_t{1} << 40, .s_kv = 4}); }, {"1099511627776 tokens"});
  expect_error([] { causal().count({.s_q = 4, .s_kv = 4, .batch = -1}); }, {"-1 sequences"});
  expect_error([] { causal().count({.s_q = 4, .s_kv = 4, .h_q = 4, .h_kv = 3}); }, {"h_q = 4 and h_kv = 3"});
  const std::vector<int32_t> falling = {0, 3, 2};
  expect_error([&] { causal().count({.cu_seqlens_q = Tensor(falling, {3})}); }, {"cu_seqlens_q falls from 3 to 2"});
  expect_error([&] { causal().count({.cu_seqlens_kv = Tensor(falling, {3})}); }, {"without cu_seqlens_q"});
  expect_error([&] { random_mask(1, lengths, 0); }, {"leaves is 0"});
  expect_error([] { per_batch(std::span<const Mask>()); }, {"per_batch"});
  expect_error([] { Mask::from_bytes({}); }, {"bytes"});
}

TEST(MaskErrors, NullsAreErrors) {
  anymask_mask_t m = nullptr;
  int32_t equal = 0;
  size_t size = 0;
  char* text = nullptr;
  const anymask_mask_t some = causal().get();
  for (const anymask_status status : {anymask_mask_parse(nullptr, nullptr, 0, &m),
                                      anymask_mask_parse("full", nullptr, 0, nullptr),
                                      anymask_mask_parse("full", nullptr, 1, &m),
                                      anymask_mask_parse("full", nullptr, -1, &m),
                                      anymask_mask_leaf(nullptr, nullptr, 0, &m),
                                      anymask_mask_leaf("keys", nullptr, 2, &m),
                                      anymask_mask_and(nullptr, nullptr, &m),
                                      anymask_mask_or(nullptr, nullptr, &m),
                                      anymask_mask_not(nullptr, &m),
                                      anymask_mask_per_batch(nullptr, 1, &m),
                                      anymask_mask_per_head(&m, 1, &m),
                                      anymask_mask_text(nullptr, &text),
                                      anymask_mask_equal(some, nullptr, &equal),
                                      anymask_mask_digest(nullptr, nullptr),
                                      anymask_mask_to_bytes(nullptr, nullptr, &size),
                                      anymask_mask_from_bytes(nullptr, 4, &m),
                                      anymask_mask_kinds(nullptr),
                                      anymask_mask_random(1, nullptr, 3, &m),
                                      anymask_mask_dense(nullptr, nullptr, 0, 0, 0, 0, nullptr),
                                      anymask_mask_coverage(nullptr, nullptr, 0, 0, nullptr),
                                      anymask_mask_count(nullptr, nullptr, nullptr, nullptr)}) {
    EXPECT_EQ(status, ANYMASK_INVALID_ARGUMENT);
    EXPECT_STRNE(anymask_last_error(), "");
  }
  EXPECT_EQ(m, nullptr);
  anymask_mask_free(nullptr);

  anymask_argument argument = {};
  const int unknown = 6;
  std::memcpy(&argument.type, &unknown, sizeof(argument.type));
  EXPECT_EQ(anymask_mask_leaf("keys", &argument, 1, &m), ANYMASK_INVALID_ARGUMENT);
  EXPECT_THAT(anymask_last_error(), HasSubstr("type 6"));
}

}  // namespace
