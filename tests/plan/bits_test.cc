#include "plan/bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "plan/bit_pool.h"

namespace anymask {
namespace {

TEST(Bits, CountsOnesOfAnyNumberOfWords) {
  std::mt19937_64 rng(1);
  for (size_t count = 0; count < 200; ++count) {
    std::vector<uint64_t> words(count);
    int64_t expected = 0;
    for (uint64_t& word : words) {
      word = rng();
      expected += std::popcount(word);
    }
    EXPECT_EQ(count_ones(words.data(), count), expected);
    words.assign(count, ~uint64_t{0});  // the counters' worst case
    EXPECT_EQ(count_ones(words.data(), count), static_cast<int64_t>(64 * count));
  }
}

TEST(Bits, BetweenSetsExactlyTheRange) {
  for (int begin = 0; begin <= 64; ++begin) {
    for (int end = -3; end <= 64; ++end) {
      const uint64_t bits = bits_between(begin, end);
      for (int i = 0; i < 64; ++i) EXPECT_EQ((bits >> i) & 1, uint64_t{begin <= i && i < end}) << begin << ' ' << end;
    }
  }
}

TEST(Bits, TransposesABlock) {
  std::mt19937_64 rng(2);
  uint64_t in[64], out[64];
  for (uint64_t& word : in) word = rng();
  std::memcpy(out, in, sizeof(in));
  transpose_64x64(out);
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) EXPECT_EQ((out[j] >> i) & 1, (in[i] >> j) & 1) << i << ' ' << j;
  }
}

// Tiles of one word to more than a chunk, with repeats: each content one number, in order of first arrival.
TEST(BitPool, NumbersContentsByFirstArrival) {
  for (const size_t words : {size_t{1}, size_t{7}, size_t{96}, size_t{1024}, size_t{70000}}) {
    std::mt19937_64 rng(words);
    BitPool pool(words);
    std::map<uint64_t, int32_t> numbers;
    std::vector<uint64_t> tile(words);
    const int arrivals = words > 1000 ? 40 : 3000;
    for (int i = 0; i < arrivals; ++i) {
      const uint64_t content = rng() % static_cast<uint64_t>(arrivals);
      tile.assign(words, content * 0x9e3779b97f4a7c15u);
      tile.back() = content;  // equal but for the last word, too
      const int32_t expected = numbers.try_emplace(content, static_cast<int32_t>(numbers.size())).first->second;
      ASSERT_EQ(pool.intern(tile.data()), expected);
    }
    const std::vector<uint64_t> all = pool.take();
    ASSERT_EQ(all.size(), numbers.size() * words);
    EXPECT_EQ(all.capacity(), all.size());
    for (const auto& [content, number] : numbers)
      EXPECT_EQ(all[(static_cast<size_t>(number) + 1) * words - 1], content);
  }
}

// Contents that differ in one bit alone are different tiles.
TEST(BitPool, KeepsNearlyEqualTilesApart) {
  BitPool pool(96);
  std::vector<uint64_t> tile(96, 0);
  for (size_t bit = 0; bit < 96 * 64; ++bit) {
    tile[bit / 64] ^= uint64_t{1} << (bit % 64);
    EXPECT_EQ(pool.intern(tile.data()), static_cast<int32_t>(bit));
    EXPECT_EQ(pool.intern(tile.data()), static_cast<int32_t>(bit));
    tile[bit / 64] ^= uint64_t{1} << (bit % 64);
  }
}

}  // namespace
}  // namespace anymask
