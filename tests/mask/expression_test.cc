// The algebra: random expressions against the oracle, simplification, sharing of planes, digests, bands.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "against_oracle.h"
#include "core/error.h"
#include "mask/build.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

std::vector<Sequence> one(int64_t s_q, int64_t s_kv) {
  return {{.batch = 0, .q_begin = 0, .s_q = s_q, .kv_begin = 0, .s_kv = s_kv}};
}
PlaneMask plane_of(const Mask& mask, int64_t s_q, int64_t s_kv) {
  return anymask::bind(mask, one(s_q, s_kv), 1, 1).planes.at(0);
}
PlaneMask plane_of(const char* text, int64_t s_q = 20, int64_t s_kv = 20) {
  return plane_of(Mask::parse(text), s_q, s_kv);
}

RC_GTEST_PROP(RandomMasks, MatchTheOracle, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  std::mt19937_64 rng(seed);
  const ExampleShape shape = random_shape(rng);
  Tightness tightness;
  check_mask(random_mask(seed, shape, *rc::gen::inRange(1, 9)), shape, rng, tightness);
  RC_ASSERT(!testing::Test::HasFatalFailure());
}

RC_GTEST_PROP(RandomMasks, SurviveTextAndBytes, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  std::mt19937_64 rng(seed);
  const Mask mask = random_mask(seed, random_shape(rng), *rc::gen::inRange(1, 30));
  const Mask parsed = Mask::parse(mask.str(), mask.program().arrays);
  RC_ASSERT(parsed == mask);
  RC_ASSERT(parsed.str() == mask.str());
  const Mask read = Mask::from_bytes(mask.to_bytes());
  RC_ASSERT(read == mask);
  RC_ASSERT(read.digest() == mask.digest());
}

TEST(RandomMasks, AreTheSameForTheSameSeedAndReachEveryKind) {
  std::vector<int> seen(2000, 0);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const ExampleShape shape{12, 24, 2, 4, 2};
    const Mask mask = random_mask(seed, shape, 6);
    EXPECT_TRUE(mask == random_mask(seed, shape, 6));
    for (const Instruction& instruction : mask.program().code) ++seen[static_cast<size_t>(instruction.op)];
  }
  for (const MaskKind& kind : mask_kinds()) EXPECT_GT(seen[static_cast<size_t>(kind.op)], 0) << kind.name;
  for (const Op op : {Op::op_and, Op::op_or, Op::op_not}) EXPECT_GT(seen[static_cast<size_t>(op)], 0);
}

TEST(Composition, FlattensAndStaysFaithful) {
  const Mask a = Mask::parse("causal"), b = Mask::parse("keys(0, 4)"), c = Mask::parse("stride(3)");
  EXPECT_EQ(((a & b) & c).str(), "causal & keys(0, 4) & stride(3)");
  EXPECT_TRUE(((a & b) & c) == (a & (b & c)));
  EXPECT_FALSE((a & b & c) == (a & c & b));
  EXPECT_EQ(((a | b) & c).str(), "(causal | keys(0, 4)) & stride(3)");
  EXPECT_EQ((a | (b & c)).str(), "causal | keys(0, 4) & stride(3)");
  EXPECT_EQ((~(a | b)).str(), "~(causal | keys(0, 4))");
  EXPECT_EQ((~~a).str(), "~~causal");
  EXPECT_EQ(Mask::per_head({a | b, ~c}).str(), "per_head([causal | keys(0, 4), ~stride(3)])");
  EXPECT_EQ((Mask::per_batch({a}) & b).str(), "per_batch([causal]) & keys(0, 4)");
  EXPECT_TRUE(Mask() == Mask::parse("full"));
}

// What a mask simplifies to has the digest of the simpler mask.
TEST(Simplification, FoldsWhatIsEqual) {
  const std::pair<const char*, const char*> equal[] = {
      {"full & causal", "causal"},
      {"causal & full", "causal"},
      {"none | causal", "causal"},
      {"none & causal", "none"},
      {"full | causal", "full"},
      {"~~causal", "causal"},
      {"causal & causal", "causal"},
      {"causal | causal", "causal"},
      {"causal & ~causal", "none"},
      {"causal | ~causal", "full"},
      {"~full", "none"},
      {"~none", "full"},
      {"keys(0, 20) & causal", "causal"},
      {"keys(-5, 99)", "full"},
      {"window(-1, 0)", "window(-1, 0) & full"},
      {"window(-1, -1)", "full"},
      {"stride(1)", "full"},
      {"chunked(50)", "full"},
      {"causal & stride(2)", "stride(2) & causal"},
      {"(causal | stride(2)) & keys(0, 3)", "keys(0, 3) & (stride(2) | causal)"},
      {"positions(3, 3)", "none"},
      {"keys(20, 30)", "none"},
      {"documents([0, 20])", "full"},
      {"documents([0, 7, 7, 20]) & (causal & full)", "causal & documents([0, 7, 7, 20])"}};
  for (const auto& [a, b] : equal) EXPECT_EQ(plane_of(a).digest(), plane_of(b).digest()) << a << " and " << b;
  EXPECT_NE(plane_of("causal").digest(), plane_of("causal(align=top_left)", 19, 20).digest());
  EXPECT_EQ(plane_of("causal").digest(), plane_of("causal(align=top_left)").digest());
}

TEST(Simplification, DropsNoCheck) {
  for (const char* text : {"none & documents([0, 5])", "full | documents([0, 5])", "~none | tree([0])",
                           "none & none & neighborhood(4, 3)"}) {
    EXPECT_THROW(plane_of(text), Error) << text;
  }
}

TEST(Bands, AreRecognised) {
  for (const char* text : {"full",
                           "none",
                           "causal",
                           "window(3, 2)",
                           "window(-1, 2)",
                           "keys(3, 9)",
                           "positions(4, 11)",
                           "prefix(6)",
                           "documents([0, 5, 5, 20])",
                           "documents([0, 3, 20], [0, 18, 20])",
                           "chunked(6)",
                           "causal & window(7, 0) & documents([0, 5, 20]) & keys(2, 17)",
                           "causal | prefix(6)",
                           "prefix(4) | keys(0, 7) | causal",
                           "~causal",
                           "~window(-1, 3) & keys(2, 20)",
                           "~prefix(5)",
                           "causal & positions(3, 9) & chunked(4)",
                           "window(3, -1) | keys(8, 20)",
                           "causal(align=top_left) | prefix(2)"}) {
    for (const auto& [s_q, s_kv] : {std::pair{20, 20}, {7, 20}}) {
      if (std::string(text).find("cu") != std::string::npos ||
          (s_q != 20 && std::string(text).find("], [") != std::string::npos))
        continue;
      const Mask mask = Mask::parse(text);
      EXPECT_TRUE(plane_of(mask, s_q, s_kv).is_band()) << text;
      std::mt19937_64 rng(3);
      Tightness tightness;
      check_mask(mask, {s_q, s_kv, 1, 1, 1}, rng, tightness);
    }
  }
  for (const char* text : {"causal & stride(2)", "window(2, 0) | keys(0, 1)", "~keys(3, 5)", "tree([-1, 0])",
                           "shared_prefix(4, [8, 8])", "positions(3, 5) | causal", "keys(0, 2) | keys(5, 7)"}) {
    EXPECT_FALSE(plane_of(text).is_band()) << text;
  }
}

TEST(Planes, AreShared) {
  const Mask causal = Mask::parse("causal");
  const std::vector<Sequence> two{{.batch = 0, .q_begin = 0, .s_q = 8, .kv_begin = 0, .s_kv = 8},
                                  {.batch = 1, .q_begin = 0, .s_q = 8, .kv_begin = 0, .s_kv = 8}};
  BoundMask bound = anymask::bind(causal, two, 8, 2);
  EXPECT_EQ(bound.heads, 1);
  EXPECT_EQ(bound.planes.size(), 1u);
  EXPECT_EQ(bound.plane_of, (std::vector<int32_t>{0, 0}));
  // Equal masks behind different spellings, over heads of k: 4 q heads each.
  bound = anymask::bind(Mask::parse("per_head([causal & full, window(-1, 0)])"), two, 8, 2);
  EXPECT_EQ(bound.heads, 8);
  EXPECT_EQ(bound.planes.size(), 2u);
  EXPECT_EQ(bound.plane(1, 3), 0);
  EXPECT_EQ(bound.plane(1, 4), 1);
  bound = anymask::bind(Mask::parse("per_head([causal & full, causal])"), two, 8, 2);
  EXPECT_EQ(bound.planes.size(), 1u);
  bound = anymask::bind(Mask::parse("per_batch([causal, full])"), two, 8, 2);
  EXPECT_EQ(bound.heads, 1);
  EXPECT_EQ(bound.plane_of, (std::vector<int32_t>{0, 1}));
  // Rows of a batched array that are equal.
  const std::vector<int64_t> cu{0, 3, 8, 0, 3, 8};
  TensorView view;
  view.data = const_cast<int64_t*>(cu.data());
  view.dtype = DType::i64;
  view.rank = 2;
  view.shape = {2, 3};
  view.stride = {3, 1};
  const Array array = Array::borrow(view, "cu");
  EXPECT_EQ(anymask::bind(Mask::parse("documents(@cu)", {&array, 1}), two, 8, 2).planes.size(), 1u);
}

TEST(Planes, OfManySequencesAndHeadsAreCheap) {
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < 4096; ++i)
    sequences.push_back({.batch = 0, .q_begin = i * 32, .s_q = 1 + i % 32, .kv_begin = i * 32, .s_kv = 1 + i % 32});
  const BoundMask bound = anymask::bind(Mask::parse("causal & window(5, 0) | prefix(3)"), sequences, 32, 8);
  EXPECT_EQ(bound.planes.size(), 32u);
  EXPECT_EQ(bound.plane_of.size(), 4096u);
}

TEST(Digests, DependOnContentsAndNotOnLayout) {
  const std::vector<int32_t> narrow{0, 0, 4, 0, 8, 0};
  TensorView strided;
  strided.data = const_cast<int32_t*>(narrow.data());
  strided.dtype = DType::i32;
  strided.rank = 1;
  strided.shape = {3};
  strided.stride = {2};
  const Array wide = Array::own(std::vector<int64_t>{0, 4, 8}, "x"),
              other = Array::own(std::vector<int64_t>{0, 5, 8}, "x");
  const Array borrowed = Array::borrow(strided, "y");
  const Mask a = Mask::parse("documents(@x)", {&wide, 1}), b = Mask::parse("documents(@x)", {&other, 1}),
             c = Mask::parse("documents(@y)", {&borrowed, 1});
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_FALSE(a == b);
  EXPECT_EQ(a.digest(), c.digest());
  EXPECT_TRUE(a == c);
  EXPECT_NE(a.digest(), Mask::parse("documents([0, 4, 8], [0, 4, 8])").digest());
  EXPECT_EQ(plane_of(a, 8, 8).digest(), plane_of(c, 8, 8).digest());
  EXPECT_NE(plane_of(a, 8, 8).digest(), plane_of(b, 8, 8).digest());
}

TEST(Digests, OfBorrowedArraysFollowTheirContents) {
  std::vector<int64_t> cu{0, 4, 8};
  TensorView view;
  view.data = cu.data();
  view.dtype = DType::i64;
  view.rank = 1;
  view.shape = {3};
  view.stride = {1};
  const Array array = Array::borrow(view, "cu");
  const Mask mask = Mask::parse("documents(@cu)", {&array, 1});
  const Digest before = mask.digest();
  const PlaneMask plane = plane_of(mask, 8, 8);
  cu[1] = 6;
  EXPECT_NE(mask.digest(), before);
  EXPECT_FALSE(plane.keep(4, 3)) << "a bound mask holds its own offsets";
  EXPECT_TRUE(plane_of(mask, 8, 8).keep(4, 3));
}

TEST(Digests, ChangeWithEveryBitOfPackedMasks) {
  std::vector<uint8_t> packed(6 * 9, 0);  // 70 keys: two spare bits a row
  TensorView view;
  view.data = packed.data();
  view.dtype = DType::u8;
  view.rank = 2;
  view.shape = {6, 9};
  view.stride = {9, 1};
  const Array array = Array::borrow(view, "packed");
  const Mask mask = Mask::parse("bits(@packed) & causal", {&array, 1});
  const Digest zero = plane_of(mask, 6, 70).digest();
  std::vector<Digest> seen;
  for (size_t bit = 0; bit < packed.size() * 8; ++bit) {
    packed[bit / 8] = static_cast<uint8_t>(1u << (bit % 8));
    const Digest digest = plane_of(mask, 6, 70).digest();
    if (bit / 8 % 9 == 8 && bit % 8 >= 6) {
      EXPECT_EQ(digest, zero) << "spare bit " << bit;
    } else {
      seen.push_back(digest);
    }
    packed[bit / 8] = 0;
  }
  seen.push_back(zero);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(Depth, TensOfThousandsOfOperandsAndThousandsOfLevels) {
  Mask mask = Mask::parse("causal");
  std::string text = "causal";
  for (int level = 0; level < 1500; ++level) {
    const char* leaf = level % 3 == 0 ? "keys(0, 9)" : level % 3 == 1 ? "stride(3)" : "window(4, 0)";
    const Mask next = Mask::parse(leaf);
    mask = level % 2 == 0 ? ~(next & mask) : next | mask;
    text = level % 2 == 0 ? std::string("~(") + leaf + (level == 0 ? " & " + text + ")" : " & (" + text + "))")
                          : std::string(leaf) + " | " + text;
  }
  EXPECT_TRUE(mask.str() == text);
  EXPECT_TRUE(Mask::parse(text) == mask);
  EXPECT_TRUE(Mask::from_bytes(mask.to_bytes()) == mask);
  std::mt19937_64 rng(1);
  Tightness tightness;
  check_mask(mask, {9, 13, 1, 1, 1}, rng, tightness);

  std::string wide = "keys(0, 1)";
  for (int i = 1; i < 20000; ++i) wide += " | keys(" + std::to_string(2 * i) + ", " + std::to_string(2 * i + 1) + ")";
  const PlaneMask plane = plane_of(Mask::parse(wide), 2, 40000);
  EXPECT_TRUE(plane.keep(1, 39998));
  EXPECT_FALSE(plane.keep(1, 39999));
  EXPECT_EQ(plane.word(0, 39936), 0x5555555555555555u);
}

TEST(Depth, ComposingBeyondTheLimitIsRefused) {
  std::string text = std::string(max_depth - 1, '~') + "causal";
  const Mask deepest = Mask::parse(text);
  EXPECT_TRUE(deepest.str() == text);
  EXPECT_TRUE(plane_of(deepest, 4, 4).keep(0, 3));
  EXPECT_THROW(~deepest, Error);
}

}  // namespace
}  // namespace anymask
