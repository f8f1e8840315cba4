// Every kind against the oracle: values, words, intervals, and classification sound everywhere and exact where it is
// promised.
#include "against_oracle.h"

#include "mask/kind.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

class Kinds : public testing::TestWithParam<size_t> {};

TEST_P(Kinds, MatchTheOracle) {
  const MaskKind& kind = mask_kinds()[GetParam()];
  std::mt19937_64 rng(GetParam() + 1);
  Tightness tightness;
  for (int trial = 0; trial < 80; ++trial) {
    const ExampleShape shape = random_shape(rng);
    check_mask(kind.random(rng, shape), shape, rng, tightness);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(tightness.rectangles, 500);
  // Exact but for documents with keys and no rows, intervals beyond what one look takes, and dilated neighbourhoods.
  switch (kind.op) {
    case Op::documents:
      EXPECT_LE(tightness.loose, tightness.rectangles / 50);
      break;
    case Op::neighborhood:
      EXPECT_LE(tightness.loose, tightness.rectangles / 4);
      break;
    case Op::per_batch:
    case Op::per_head:
      EXPECT_LE(tightness.loose, tightness.rectangles / 20);
      break;
    case Op::topk:  // looks at its own bits and its candidates' apart
      EXPECT_LE(tightness.loose, tightness.rectangles / 4);
      break;
    case Op::tree:
      EXPECT_LE(tightness.loose, tightness.rectangles / 100);
      break;
    default:
      EXPECT_EQ(tightness.loose, 0);
  }
}

TEST_P(Kinds, HaveAnExampleOfSixteenPositions) {
  const MaskKind& kind = mask_kinds()[GetParam()];
  const std::string text = kind.example;
  EXPECT_FALSE(std::string(kind.keeps).empty());
  EXPECT_FALSE(std::string(kind.summary).empty());
  if (text.find('@') != std::string::npos) return;  // needs an array
  const Mask mask = Mask::parse(text);
  const std::vector<Sequence> one{{.batch = 0, .q_begin = 0, .s_q = 16, .kv_begin = 0, .s_kv = 16}};
  EXPECT_EQ(anymask::bind(mask, one, 1, 1).planes.size(), 1u);
  EXPECT_EQ(mask.str(), text);
}

TEST_P(Kinds, PrintAndSerialiseTheSame) {
  const MaskKind& kind = mask_kinds()[GetParam()];
  std::mt19937_64 rng(GetParam() + 100);
  for (int trial = 0; trial < 60; ++trial) {
    const ExampleShape shape = random_shape(rng);
    const Mask mask = kind.random(rng, shape);
    const Mask parsed = Mask::parse(mask.str(), mask.program().arrays);
    EXPECT_TRUE(parsed == mask) << mask.str();
    EXPECT_EQ(parsed.str(), mask.str());
    EXPECT_EQ(parsed.digest(), mask.digest());
    const Mask read = Mask::from_bytes(mask.to_bytes());
    EXPECT_TRUE(read == mask) << mask.str();
    EXPECT_EQ(read.str(), mask.str());
    EXPECT_EQ(read.to_bytes(), mask.to_bytes());
  }
}

std::string kind_name(const testing::TestParamInfo<size_t>& info) { return mask_kinds()[info.param].name; }
INSTANTIATE_TEST_SUITE_P(All, Kinds, testing::Range<size_t>(0, mask_kinds().size()), kind_name);

// Beyond what the random shapes reach: long lines of intervals and long trees, where bounds over blocks decide.
TEST(LongTables, AreSoundAndTight) {
  std::mt19937_64 rng(7);
  const int64_t s = 300;
  const ExampleShape shape{s, s, 1, 1, 1};
  std::vector<int64_t> begins, ends, chain, bush;
  for (int64_t i = 0; i < s; ++i) {
    begins.insert(begins.end(), {i / 100 * 100, i >= 150 ? 20 : 0});
    ends.insert(ends.end(), {i / 100 * 100 + 50, i >= 150 ? 40 : 0});
    chain.push_back(i % 97 == 0 ? i - 2 < 0 ? -1 : static_cast<int64_t>(rng() % static_cast<uint64_t>(i)) : i - 1);
    bush.push_back((i - 1) / 2 - (i == 0));
  }
  const Array begin = Array::own(begins, "begin"), end = Array::own(ends, "end");
  const auto two_columns = [&](const Array& array) {
    TensorView view = array.view;
    view.rank = 2;
    view.shape = {s, 2};
    view.stride = {2, 1};
    return Array::own(view, array.name);
  };
  const Array arrays[] = {two_columns(begin), two_columns(end), Array::own(chain, "chain"), Array::own(bush, "bush")};
  for (const char* text : {"row_intervals(@begin, @end)", "col_intervals(@begin, @end)", "tree(@chain)", "tree(@bush)",
                           "tree(@chain) & keys(5, 200)"}) {
    Tightness tightness;
    check_mask(Mask::parse(text, arrays), shape, rng, tightness);
    EXPECT_LE(tightness.loose, 8) << text;
  }
}

// A BandEnd as it is defined.
int64_t end_at(const BandEnd& end, int64_t q) {
  int64_t x = q + end.a;
  switch (end.form) {
    case BandEnd::Form::line:
      break;
    case BandEnd::Form::step:
      x = x < 0 ? end.low : end.high;
      break;
    case BandEnd::Form::floor:
      x = floor_div(x, end.size) * end.size;
      break;
    case BandEnd::Form::stretch: {
      int64_t i = 0;
      while (i < end.n && end.rows[i + 1] <= x) ++i;
      x = x < end.rows[0] ? end.low : i == end.n ? end.high : end.values[i];
      break;
    }
  }
  return std::clamp(x, end.low, end.high);
}

TEST(BandEnds, AreThoseOfTheIntervals) {
  std::mt19937_64 rng(5);
  int64_t with_ends = 0;
  for (const KindRow& row : kind_rows()) {
    if (row.ops.ends == nullptr) continue;
    ++with_ends;
    for (int repeat = 0; repeat < 60; ++repeat) {
      const int64_t s_q = 1 + static_cast<int64_t>(rng() % 40), s_kv = 1 + static_cast<int64_t>(rng() % 40);
      const Mask mask = row.kind.random(rng, {.s_q = s_q, .s_kv = s_kv, .batch = 1, .h_q = 1, .h_kv = 1});
      const Sequence sequence{0, 0, s_q, 0, s_kv};
      const BoundMask bound = anymask::bind(mask, {&sequence, 1}, 1, 1);
      for (const auto& leaf : bound.planes[0].code().leaves) {
        const BandEnds ends = leaf->ops->ends(leaf->args);
        for (int64_t q = 0; q < s_q; ++q) {
          const Interval want = leaf->ops->interval(leaf->args, q);
          const int64_t begin = end_at(ends.begin, q);
          EXPECT_EQ(begin, want.begin) << mask.str() << ", row " << q;
          EXPECT_EQ(std::max(begin, end_at(ends.end, q)), want.end) << mask.str() << ", row " << q;
        }
      }
    }
  }
  EXPECT_EQ(with_ends, 7);
}

}  // namespace
}  // namespace anymask
