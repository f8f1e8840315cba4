// The grammar: what it accepts, how masks print, what it says about mistakes and where it points.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "mask/build.h"
#include "mask/mask.h"

namespace anymask {
namespace {

using testing::HasSubstr;

TEST(Text, PrintsCanonically) {
  const std::pair<const char*, const char*> cases[] = {
      {"causal()", "causal"},
      {" full ", "full"},
      {"none()", "none"},
      {"causal(align=top_left)", "causal(align=\"top_left\")"},
      {"causal(align='top_left')", "causal(align=\"top_left\")"},
      {"causal(align=\"bottom_right\")", "causal"},
      {"causal(top_left)", "causal(align=\"top_left\")"},
      {"window(right=0,left=3)", "window(3, 0)"},
      {"window(3,right=-1)", "window(3, -1)"},
      {"causal&full|none", "causal & full | none"},
      {"causal | full & none", "causal | full & none"},
      {"(causal | full) & none", "(causal | full) & none"},
      {"causal | (full | none)", "causal | full | none"},
      {"(causal & full) & (none & full)", "causal & full & none & full"},
      {"~ ~causal", "~~causal"},
      {"~(causal)", "~causal"},
      {"~(causal & full)", "~(causal & full)"},
      {"~causal & full", "~causal & full"},
      {"((((causal))))", "causal"},
      {"tree([-1,0, 0 ,1])", "tree([-1, 0, 0, 1])"},
      {"tree([-1, 0], prefix=3)", "tree([-1, 0], 3)"},
      {"tree([])", "tree([])"},
      {"tree([-1], align=top_left)", "tree([-1], align=\"top_left\")"},
      {"neighborhood(16, 3)", "neighborhood(16, 3)"},
      {"neighborhood([4, 4], 3, 1)", "neighborhood([4, 4], 3)"},
      {"neighborhood([4, 4], [3, 1], dilation=[1, 2], align=top_left)",
       "neighborhood([4, 4], [3, 1], [1, 2], align=\"top_left\")"},
      {"documents([0, 4], cu_kv=[0, 6])", "documents([0, 4], [0, 6])"},
      {"prefix(n=+5)", "prefix(5)"},
      {"prefix([5, 6])", "prefix([5, 6])"},
      {"per_batch([causal , full & none])", "per_batch([causal, full & none])"},
      {"per_head( [ per_batch([causal]) ] ) | none", "per_head([per_batch([causal])]) | none"},
      {"~per_head([causal])", "~per_head([causal])"},
      {"causal\n  & full", "causal & full"},
      {"keys(-3, 9223372036854775807)", "keys(-3, 9223372036854775807)"}};
  for (const auto& [text, printed] : cases) {
    const Mask mask = Mask::parse(text);
    EXPECT_EQ(mask.str(), printed) << text;
    EXPECT_TRUE(Mask::parse(printed) == mask) << text;
  }
}

Array bias() {
  const float values[] = {1, 2};
  TensorView view;
  view.data = const_cast<float*>(values);
  view.dtype = DType::f32;
  view.rank = 2;
  view.shape = {1, 2};
  view.stride = {2, 1};
  return Array::own(view, "bias");
}

TEST(Text, ReadsAndPrintsRealNumbers) {
  const Array array = bias();
  const std::pair<const char*, const char*> cases[] = {{"0.5", "0.5"},     {"1", "1"},
                                                       {"-1.25", "-1.25"}, {"1e-3", "0.001"},
                                                       {"2.5E2", "250"},   {".5", "0.5"},
                                                       {"5.", "5"},        {"-inf", "-inf"},
                                                       {"inf", "inf"},     {"1e300", "1e+300"},
                                                       {"0.1", "0.1"},     {"-0.0", "-0.0"},
                                                       {"+3.5", "3.5"},    {"123456789.125", "123456789.125"}};
  for (const auto& [written, printed] : cases) {
    const Mask mask = Mask::parse(std::string("threshold(@bias, ") + written + ")", {&array, 1});
    EXPECT_EQ(mask.str(), std::string("threshold(@bias, ") + printed + ")");
    EXPECT_TRUE(Mask::parse(mask.str(), {&array, 1}) == mask) << written;
  }
}

TEST(Text, NamesArrays) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i <= 17; ++i) offsets.push_back(i);
  const auto documents = [](const Array& array) {
    return Mask::leaf("documents", std::vector<MaskArgument>{{"", array}});
  };
  const Mask nameless = documents(Array::own(offsets));
  EXPECT_EQ(nameless.str(), "documents(@array0)");
  offsets.pop_back();
  offsets.pop_back();
  EXPECT_EQ(documents(Array::own(offsets)).str(), "documents([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])");
  offsets.insert(offsets.end(), {16, 18});
  EXPECT_EQ((nameless & documents(Array::own(offsets))).str(), "documents(@array0) & documents(@array0_2)");
  // One name for two arrays: the second is renamed; one array used twice is not.
  const Array a = Array::own({0, 4}, "cu"), b = Array::own({0, 2, 4}, "cu");
  const Mask both = documents(a) & documents(b) & ~documents(a) & ~documents(b);
  EXPECT_EQ(both.str(), "documents(@cu) & documents(@cu_2) & ~documents(@cu) & ~documents(@cu_2)");
  EXPECT_TRUE(Mask::parse(both.str(), both.program().arrays) == both);
  EXPECT_TRUE(Mask::from_bytes(both.to_bytes()) == both);
}

struct Mistake {
  const char* text;
  const char* message;
  size_t column;
};

TEST(Text, PointsAtMistakes) {
  const Array array = Array::own({0, 4}, "cu"), parents = Array::own({-1, 0}, "parents");
  const Array arrays[] = {array, parents, bias()};
  const Mistake mistakes[] = {
      {"", "expected a mask, got the end", 1},
      {"   ", "expected a mask, got the end", 4},
      {"causal &", "expected a mask, got the end", 9},
      {"causal & & full", "expected a mask, got `&`", 10},
      {"causal & documnets(@cu)", "did you mean `documents`?", 10},
      {"casual", "did you mean `causal`?", 1},
      {"topp(@bias, 4)", "no mask is named `topp`; did you mean `topk`?", 1},
      {"qwertyuiop", "lists them all", 1},
      {"causal full", "expected `&`, `|` or the end", 8},
      {"(causal", "this `(` is never closed", 1},
      {"causal & (full | (none)", "this `(` is never closed", 10},
      {"causal)", "no bracket is open", 7},
      {"causal, full", "joined by `&` and `|`", 7},
      {"(causal, full)", "joined by `&` and `|`", 8},
      {"causal]", "no list is open", 7},
      {"(causal]", "expected `)` first", 8},
      {"window(3, 0", "this `(` is never closed", 7},
      {"window(3 0)", "expected `,` or `)`", 10},
      {"window(3,, 0)", "expected an argument, got `,`", 10},
      {"window(3)", "right is missing", 1},
      {"window()", "left is missing", 1},
      {"window", "left is missing", 1},
      {"window(1, 2, 3, 4)", "got 4 arguments", 1},
      {"window(1, 2, 3)", "align is an integer", 1},
      {"window(lefft=3, right=0)", "did you mean `left`?", 8},
      {"full & window(3, wide=0)", "no argument is named `wide`", 18},
      {"window(left=3, 0)", "has no name but follows one", 1},
      {"window(3, left=3)", "left is given twice", 1},
      {"window(-2, 0)", "left is -2; expected 0 or more, or -1", 1},
      {"window(3, -7)", "right is -7", 1},
      {"window(1.5, 0)", "left is a real number; expected an integer", 1},
      {"window(99999999999999999999, 0)", "does not fit in 64 bits", 8},
      {"window(-9223372036854775808, 0)", "expected a number above it", 1},
      {"window(3x, 0)", "not a number", 8},
      {"window(-, 0)", "expected a number", 8},
      {"window(1e, 0)", "digits after the exponent", 8},
      {"threshold(@bias, 1e999)", "beyond what 64-bit floats hold", 18},
      {"threshold(@bias, nan)", "t is NaN", 1},
      {"threshold(@bias, @cu)", "t is an array; expected a number", 1},
      {"threshold(@cu, 1)", "has shape [2]", 1},
      {"topk(@bias, -1)", "window is -1; expected 0 or more", 1},
      {"topk(@bias, 2.5)", "window is a real number; expected an integer", 1},
      {"topk(@bias)", "window is missing; expected topk(bias, window, among?)", 1},
      {"topk(@cu, 2)", "has shape [2]", 1},
      {"topk([[0, 4]], 2)", "lists of lists", 7},
      {"topk(@bias, 2, 3)", "among is an integer; expected a mask", 1},
      {"topk(@bias, 2, among=3)", "expected a mask, got `3`", 22},
      {"topk(@bias, 2, @cu)", "among is an array; expected a mask", 1},
      {"topk(@bias, 2, casual)", "did you mean `causal`?", 16},
      {"topk(@bias, 2, causal & )", "expected a mask, got `)`", 25},
      {"topk(@bias, 2, (causal)", "this `(` is never closed", 5},
      {"topk(@bias, 2, causal", "this `(` is never closed", 5},
      {"topk(@bias, 2, causal]", "expected `)` first", 22},
      {"topk(@bias, 2, causal, among=full)", "a second mask is given", 24},
      {"topk(@bias, 2, causal, @cu)", "got 4 arguments", 1},
      {"full & topk(@bias, 2, tree(@parents, -1))", "prefix", 23},
      {"causal(among=full)", "no argument is named `among`", 8},
      {"keys(4, 0)", "expected a <= b", 1},
      {"positions(4, 0)", "expected a <= b", 1},
      {"prefix(-1)", "expected 0 or more", 1},
      {"prefix(top_left)", "n is a word; expected an integer, a list of integers or an array", 1},
      {"chunked(0)", "expected a positive number", 1},
      {"stride(-4)", "expected a positive number", 1},
      {"causal(align=left)", "align is `left`; expected bottom_right", 1},
      {"causal(align=3)", "align is an integer", 1},
      {"causal(align='top_left)", "this quote is never closed", 14},
      {"documents(@cuu)", "@cuu: no such array; given: cu, parents, bias; did you mean @cu?", 11},
      {"documents(@)", "expected the name of an array", 12},
      {"documents(@bias)", "has type float32; expected int32 or int64", 1},
      {"documents([0, 4], [0, 4], align=top_left)", "align is top_left; with cu_kv", 1},
      {"documents([0, 4.5])", "expected an integer in the list, got a real", 15},
      {"documents([0, @cu])", "expected an integer in the list, got `@`", 15},
      {"documents([[0, 4]])", "lists of lists", 12},
      {"documents([0, 4", "this `[` is never closed", 11},
      {"documents([0 4])", "expected `,` or `]`", 14},
      {"documents(4)", "cu is an integer; expected a list of integers or an array", 1},
      {"tree(@parents, -1)", "prefix", 1},
      {"dense(@cu)", "expected [s_q or 1, s_kv]", 1},
      {"bits(@bias)", "has type float32; expected uint8", 1},
      {"dense(@bias)", "has type float32; expected bool or uint8", 1},
      {"blocks(@bias, 4, 4)", "has type float32", 1},
      {"blocks(@cu, 4, 4)", "has shape [2]", 1},
      {"row_intervals([0, 1], [1])", "expected the same shape", 1},
      {"row_intervals([0, 1], @bias)", "expected int32 or int64", 1},
      {"neighborhood([2, 2, 2, 2], 1)", "expected 1, 2 or 3", 1},
      {"neighborhood([], 1)", "expected 1, 2 or 3", 1},
      {"block_diffusion(0, 4)", "seq is 0; expected a positive number", 1},
      {"block_diffusion(4, 0)", "block is 0", 1},
      {"shared_prefix(-1, [4])", "n is -1", 1},
      {"per_batch(causal)", "takes a list of masks", 11},
      {"per_head([])", "expected a mask, got `]`", 11},
      {"per_head([causal)", "the list is still open", 17},
      {"per_head([causal", "this `[` is never closed", 10},
      {"per_head([causal] & full", "expected `)` after the list", 19},
      {"per_head", "takes a list of masks", 9},
      {"full(3)", "full: got 1 arguments", 1},
      {"full(x=3)", "no argument is named `x`", 6},
      {"causal && full", "an intersection is written `&`", 8},
      {"causal || full", "a union is written `|`", 8},
      {"!causal", "a complement is written `~`", 1},
      {"causal \x01", "unexpected `?`", 8},
      {"3", "expected a mask, got `3`", 1}};
  for (const Mistake& mistake : mistakes) {
    try {
      Mask::parse(mistake.text, arrays);
      ADD_FAILURE() << mistake.text << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_argument);
      const std::string what = error.what();
      EXPECT_THAT(what, HasSubstr(mistake.message)) << mistake.text;
      EXPECT_THAT(what, HasSubstr("^ column " + std::to_string(mistake.column))) << mistake.text;
      // The caret stands under its column.
      const size_t line = what.find("\n  "), caret_line = what.find("\n  ", line + 1);
      EXPECT_EQ(what.find('^') - caret_line - 3, mistake.column - 1) << what;
    }
  }
}

TEST(Text, ShowsTheEndOfLongTexts) {
  std::string text = "causal";
  for (int i = 0; i < 500; ++i) text += " & causal";
  try {
    Mask::parse(text + " & casual & full" + text);
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_LT(what.size(), 400u);
    EXPECT_THAT(what, HasSubstr("^ column " + std::to_string(text.size() + 4)));
    const size_t line = what.find("\n  "), caret_line = what.find("\n  ", line + 1);
    EXPECT_EQ(what.substr(line + 3 + what.find('^') - caret_line - 3, 6), "casual");
  }
}

TEST(Text, NestsDeepAndRefusesDeeper) {
  for (const int depth : {1000, 9000}) {
    const std::string brackets =
        std::string(static_cast<size_t>(depth), '(') + "causal" + std::string(static_cast<size_t>(depth), ')');
    EXPECT_EQ(Mask::parse(brackets).str(), "causal");
    std::string lists;
    for (int i = 0; i < depth; ++i) lists += "per_head([";
    lists += "causal";
    for (int i = 0; i < depth; ++i) lists += "])";
    EXPECT_EQ(Mask::parse(lists).str(), lists);
  }
  for (const char* open : {"(", "~", "per_head([", "full & ~(", "full | (none & "}) {
    std::string text;
    for (int i = 0; i < 11000; ++i) text += open;
    EXPECT_THROW(Mask::parse(text + "causal"), Error) << open;
  }
  EXPECT_THROW(Mask::parse(std::string(max_text + 1, ' ')), Error);
  std::string longest = "causal";
  while (longest.size() + 9 <= max_text) longest += " & causal";
  EXPECT_EQ(Mask::parse(longest).program().code.back().arity, (longest.size() - 6) / 9 + 1);
}

TEST(Leaf, TakesTypedArguments) {
  using Arguments = std::vector<MaskArgument>;
  EXPECT_EQ(Mask::leaf("window", Arguments{{"right", int64_t{0}}, {"left", int64_t{7}}}).str(), "window(7, 0)");
  EXPECT_EQ(Mask::leaf("causal", Arguments{{"align", std::string("top_left")}}).str(), "causal(align=\"top_left\")");
  EXPECT_EQ(Mask::leaf("tree", Arguments{{"", std::vector<int64_t>{-1, 0}}}).str(), "tree([-1, 0])");
  EXPECT_THROW(Mask::leaf("tree", Arguments{{"", 0.5}}), Error);
  EXPECT_THROW(Mask::leaf("per_head", {}), Error);
  EXPECT_THROW(Mask::leaf("trie", {}), Error);
  EXPECT_THROW(Mask::per_head({}), Error);
  EXPECT_THROW(Mask::per_batch({}), Error);
  EXPECT_THROW(Mask::leaf("documents", Arguments{{"", Array::own({0, 4}, "not a name")}}), Error);
}

}  // namespace
}  // namespace anymask
