// Arguments that can be judged once lengths are known: each mistake is named, with what was expected and the way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "mask/bound_mask.h"

namespace anymask {
namespace {

using testing::HasSubstr;

struct Case {
  const char* text;
  const char* message;
  int64_t s_q = 8, s_kv = 8, batch = 1, h_q = 1, h_kv = 1;
};

Array array_of(const char* name, DType type, std::vector<int64_t> shape) {
  static const std::vector<uint64_t> zeros(4096, 0);
  TensorView view;
  view.data = const_cast<uint64_t*>(zeros.data());
  view.dtype = type;
  view.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (int i = view.rank; i-- > 0;) {
    view.shape[i] = shape[i];
    view.stride[i] = stride;
    stride *= shape[i];
  }
  return Array::borrow(view, name);
}

std::vector<Array> arrays() {
  Array cuda = array_of("cuda", DType::i64, {9});
  Array f32_cuda = array_of("f32_cuda", DType::f32, {8, 8});
  cuda.view.device = f32_cuda.view.device = {DeviceKind::cuda, 1};
  return {array_of("u8_8x1", DType::u8, {8, 1}),
          array_of("u8_8x2", DType::u8, {8, 2}),
          array_of("u8_2x3x8x1", DType::u8, {2, 3, 8, 1}),
          array_of("u8_3x1x8x1", DType::u8, {3, 1, 8, 1}),
          array_of("u8_8x8", DType::u8, {8, 8}),
          array_of("u8_3x8", DType::u8, {3, 8}),
          array_of("f32_8x7", DType::f32, {8, 7}),
          array_of("i64_3x3", DType::i64, {3, 3}),
          array_of("i64_7x2", DType::i64, {7, 2}),
          array_of("f32_3x2x8x8", DType::f32, {3, 2, 8, 8}),
          cuda,
          f32_cuda};
}

// Whoever selects reads the bias and the candidates.
TEST(BindErrors, CandidatesOnADeviceWantTheBiasThere) {
  const Sequence sequences[] = {{0, 0, 8, 0, 7}};
  try {
    anymask::bind(Mask::parse("topk(@f32_8x7, 2, documents(@cuda))", arrays()), sequences, 1, 1, {DeviceKind::cuda, 1});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("copy the bias to that device"));
  }
}

TEST(BindErrors, TeachTheWayOut) {
  const std::vector<Array> given = arrays();
  const Case cases[] = {
      {"documents([0, 5])", "cu ends at 5; expected s_kv = 8"},
      {"documents([1, 8])", "cu starts at 1; expected 0"},
      {"documents([0, 5, 3, 8])", "cu decreases from 5 to 3 at index 2"},
      {"documents([])", "cu is empty"},
      {"documents([0, 4], [0, 8])", "cu ends at 4; expected s_q = 8"},
      {"documents([0, 8], [0, 4])", "cu_kv ends at 4; expected s_kv = 8"},
      {"documents([0, 4, 8], [0, 8])", "expected the same number"},
      {"documents(@i64_3x3)", "first axis counts batch entries: expected 1 or 2", 8, 8, 2},
      {"documents(@i64_3x3)", "first axis counts batch entries: expected 1:", 8, 8, 1},
      {"documents(@i64_3x3)", "ends at 0; expected s_kv = 8: the last offset is the length it cuts (in sequence 0)", 8,
       8, 3},
      {"documents(@cuda)", "is on CUDA device 1", 8, 8},
      {"prefix([1, 2, 3])", "expected 1 or 2", 8, 8, 2},
      {"prefix([1, -2])", "holds -2; expected 0 or more", 8, 8, 2},
      {"prefix([])", "first axis counts batch entries"},
      {"shared_prefix(4, [2, 1])", "n + sum(lengths) is 7; expected s_kv = 8: add the missing 1"},
      {"shared_prefix(4, [2, 3])", "sum to more than s_kv = 8"},
      {"shared_prefix(9, [])", "expected at most s_kv = 8"},
      {"shared_prefix(4, [5, -1])", "sum to more than"},
      {"shared_prefix(4, [-1, 5])", "holds -1; expected 0 or more"},
      {"tree([0])", "has 0 at index 0; expected -1 (a root) or an earlier node"},
      {"tree([-1, 1])", "has 1 at index 1"},
      {"tree([-1, -2])", "has -2 at index 1"},
      {"tree([-1, 5])", "has 5 at index 1"},
      {"tree([-1, 0, 0], 6)", "prefix is 6 before 3 nodes; expected prefix + nodes <= s_kv = 8: use a prefix of 5"},
      {"tree([-1, 0, 1, 2, 3, 4, 5, 6, 7])", "has 9 nodes; expected at most s_kv = 8"},
      {"blocks(@u8_8x8, 2, 2)", "has shape [8, 8]; expected [ceil(s_q / tile_q), ceil(s_kv / tile_kv)] = [4, 4]"},
      {"blocks(@u8_8x8, 1, 2)", "= [8, 4]"},
      {"bits(@u8_8x2)", "has shape [8, 2]; expected [s_q or 1, ceil(s_kv / 8)] = [8 or 1, 1]"},
      {"bits(@u8_8x1)", "= [5 or 1, 1]", 5},
      {"bits(@u8_2x3x8x1)", "second axis counts heads: expected 1, h_kv = 2 or h_q = 4", 8, 8, 2, 4, 2},
      {"bits(@u8_3x1x8x1)", "first axis counts batch entries: expected 1 or 2", 8, 8, 2},
      {"dense(@u8_3x8)", "has shape [3, 8]; expected [s_q or 1, s_kv] = [8 or 1, 8]"},
      {"dense(@u8_8x8)", "= [8 or 1, 9]", 8, 9},
      {"threshold(@f32_8x7, 0)", "= [8 or 1, 8]"},
      {"topk(@f32_8x7, 2)", "topk: bias (@f32_8x7) has shape [8, 7]; expected [s_q or 1, s_kv] = [8 or 1, 8]"},
      {"topk(@f32_8x7, 2, keys(9, 4))", "expected a <= b"},
      {"topk(@f32_8x7, 2, documents([0, 5]))", "cu ends at 5; expected s_kv = 7", 8, 7},
      {"topk(@f32_3x2x8x8, 2)", "first axis counts batch entries: expected 1 or 2", 8, 8, 2, 2},
      {"topk(@f32_3x2x8x8, 2)", "second axis counts heads: expected 1, h_kv = 3 or h_q = 6", 8, 8, 3, 6, 3},
      {"topk(@f32_cuda, 2)", "is on CUDA device 1"},
      {"row_intervals([0, 0, 0], [1, 1, 1])", "expected s_q = 8 (or 1) lines"},
      {"row_intervals([0, 0, 0, 3, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1])",
       "is 3 and end 1 at [3, 0]; expected begin <= end"},
      {"col_intervals([0, 0, 0], [1, 1, 1])", "expected s_kv = 8 (or 1) lines"},
      {"col_intervals(@i64_7x2, @i64_7x2)", "expected s_kv = 8"},
      {"col_intervals([5], [4])", "is 5 and end 4 at [0, 0]"},
      {"neighborhood(7, 3)", "shape holds 7 cells; expected s_kv = 8"},
      {"neighborhood([2, 4], [1, 3, 3])", "kernel has 3 numbers; expected 2"},
      {"neighborhood([2, 4], 2)", "kernel is 2 on axis 0; expected an odd number: use 3"},
      {"neighborhood([2, 4], [1, 5])", "kernel 5 x dilation 1 exceeds shape 4 on axis 1"},
      {"neighborhood([2, 4], [1, 3], 2)", "kernel 3 x dilation 2 exceeds shape 4 on axis 1"},
      {"neighborhood([2, 4], 1, 0)", "dilation is 0"},
      {"neighborhood([0, 4], 1)", "shape is 0 on axis 0"},
      {"neighborhood([-8], 1)", "shape is -8"},
      {"neighborhood([281474976710656, 281474976710656], 1)", "more than 2^48 cells"},
      {"neighborhood(8, 9223372036854775807)", "exceeds shape"},
      {"block_diffusion(5, 2)",
       "seq is 5; expected 2 * seq = s_kv = 8: the keys are a noisy and a clean copy, so use 4"},
      {"block_diffusion(4, 2)", "expected 2 * seq = s_kv = 7", 7, 7},
      {"block_diffusion(4611686018427387904, 2)", "expected 2 * seq = s_kv = 0", 0, 0},
      {"per_batch([causal, full])", "per_batch: got 2 masks; expected 3", 8, 8, 3},
      {"per_head([causal, full])", "per_head: got 2 masks; expected 1, h_kv = 1 or h_q = 4", 8, 8, 1, 4},
      {"causal", "h_kv must divide h_q", 8, 8, 1, 4, 3},
      {"causal", "h_kv must divide h_q", 8, 8, 1, 0, 0},
      {"causal", "expected 0 to 2^48", -1},
      {"causal", "expected 0 to 2^48", 8, int64_t{1} << 60},
      {"none & per_head([full | documents([0, 5])])", "cu ends at 5"}};
  for (const Case& c : cases) {
    std::vector<Sequence> sequences;
    for (int64_t b = 0; b < c.batch; ++b)
      sequences.push_back({.batch = b, .q_begin = 0, .s_q = c.s_q, .kv_begin = 0, .s_kv = c.s_kv});
    try {
      anymask::bind(Mask::parse(c.text, given), sequences, c.h_q, c.h_kv);
      ADD_FAILURE() << c.text << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr(c.message)) << c.text;
    }
  }
}

// Lengths of zero, and arguments at the far end of what 64 bits hold, are fine where nothing contradicts them.
TEST(BindErrors, ExtremesThatAreFine) {
  const char* texts[] = {"causal",
                         "window(9223372036854775807, 9223372036854775807)",
                         "keys(-9223372036854775807, 9223372036854775807)",
                         "positions(-9223372036854775807, 9223372036854775807, align=top_left)",
                         "prefix(9223372036854775807)",
                         "chunked(9223372036854775807)",
                         "stride(9223372036854775807)",
                         "~window(0, 3)",
                         "stride(2) & window(3, 9223372036854775807)"};
  for (const char* text : texts) {
    for (const auto& [s_q, s_kv] :
         {std::pair<int64_t, int64_t>{0, 0}, {0, 5}, {5, 0}, {5, 5}, {1, int64_t{1} << 48}, {int64_t{1} << 48, 1}}) {
      const std::vector<Sequence> one{{.batch = 0, .q_begin = 0, .s_q = s_q, .kv_begin = 0, .s_kv = s_kv}};
      const BoundMask bound = anymask::bind(Mask::parse(text), one, 2, 1);
      const PlaneMask& plane = bound.planes.at(0);
      uint64_t bits[4];
      plane.words(s_q > 2 ? s_q - 2 : 0, 2, s_kv > 128 ? (s_kv - 128) / 64 * 64 : 0, 2, bits);
      if (s_q == 0 || s_kv == 0) {
        EXPECT_EQ(bits[0] | bits[1] | bits[2] | bits[3], 0u) << text;
      } else {
        EXPECT_EQ(plane.keep(0, 0), plane.word(0, 0) & 1) << text << s_q << " " << s_kv;
        EXPECT_EQ(plane.keep(s_q - 1, s_kv - 1), plane.word(s_q - 1, (s_kv - 1) / 64 * 64) >> ((s_kv - 1) % 64) & 1)
            << text << s_q << " " << s_kv;
      }
    }
  }
  EXPECT_EQ(anymask::bind(Mask::parse("documents([0], [0])"), std::vector<Sequence>{Sequence{}}, 1, 1).planes.size(),
            1u);
  EXPECT_EQ(anymask::bind(Mask(), std::vector<Sequence>{}, 4, 2).plane_of.size(), 0u);
}

}  // namespace
}  // namespace anymask
