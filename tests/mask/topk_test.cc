// topk against an exhaustive sort: every bias shape and type, ties, special values, every kind of candidates; the two
// integers themselves are canonical; a selection made once says the same again.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "mask/bound_mask.h"
#include "mask/select.h"

namespace anymask {
namespace {

int64_t pick(std::mt19937_64& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}

// A bias by its bits: any pattern of the type, so that NaNs of both signs, denormals and infinities all come.
struct Bias {
  std::vector<uint32_t> wide;
  std::vector<uint16_t> narrow;
  Array array;
};

enum class Values { any_bits, normal, few, constant, special };

void fill(Bias& bias, std::mt19937_64& rng, DType type, std::vector<int64_t> shape, Values values) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::normal_distribution<float> normal;
  const auto of = [&](float x) -> uint32_t {
    return type == DType::f32 ? std::bit_cast<uint32_t>(x) : type == DType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
  };
  const float specials[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 6e-8f, -6e-8f, 1, -1};
  const uint32_t constant = of(specials[pick(rng, 0, 11)]);
  bias.wide.clear();
  for (int64_t i = 0; i < count; ++i) {
    switch (values) {
      case Values::any_bits:
        bias.wide.push_back(static_cast<uint32_t>(rng()));
        break;
      case Values::normal:
        bias.wide.push_back(of(normal(rng)));
        break;
      case Values::few:
        bias.wide.push_back(of(static_cast<float>(pick(rng, -2, 2))));
        break;
      case Values::constant:
        bias.wide.push_back(constant);
        break;
      case Values::special:
        bias.wide.push_back(of(specials[pick(rng, 0, 11)]));
    }
  }
  bias.narrow.assign(bias.wide.begin(), bias.wide.end());
  TensorView view;
  view.data = type == DType::f32 ? static_cast<void*>(bias.wide.data()) : bias.narrow.data();
  view.dtype = type;
  view.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (int i = view.rank; i-- > 0; stride *= shape[static_cast<size_t>(i)]) {
    view.shape[static_cast<size_t>(i)] = shape[static_cast<size_t>(i)];
    view.stride[static_cast<size_t>(i)] = stride;
  }
  bias.array = Array::borrow(view, "bias");
}

double value(const TensorView& view, int64_t at) {
  return view.dtype == DType::f32   ? view.as<float>()[at]
         : view.dtype == DType::f16 ? f16_to_f32(view.as<uint16_t>()[at])
                                    : bf16_to_f32(view.as<uint16_t>()[at]);
}

// Which keys a row keeps, by sorting all its candidates.
std::vector<bool> sorted(const TensorView& bias, int64_t row, int64_t window, const std::vector<bool>& candidates) {
  const auto s_kv = static_cast<int64_t>(candidates.size());
  std::vector<int64_t> order;
  for (int64_t kv = 0; kv < s_kv; ++kv)
    if (candidates[kv] && value(bias, row + kv) > -INFINITY) order.push_back(kv);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return value(bias, row + a) > value(bias, row + b); });
  std::vector<bool> kept(candidates.size(), false);
  for (int64_t i = 0; i < std::min<int64_t>(window, static_cast<int64_t>(order.size())); ++i) kept[order[i]] = true;
  return kept;
}

constexpr const char* candidate_texts[] = {
    "full",          "none",      "causal",      "window(9, 0)",           "keys(3, 200) & ~stride(3)",
    "~window(5, 5)", "stride(2)", "chunked(16)", "causal & window(40, 0)", "causal | keys(0, 7)"};

// 5,000 draws, each a mask over all its planes.
TEST(Topk, KeepsWhatASortKeeps) {
  std::mt19937_64 rng(20);
  int64_t kept_pairs = 0, dropped_pairs = 0;
  for (int draw = 0; draw < 5000; ++draw) {
    const int64_t h_kv = pick(rng, 1, 2), h_q = h_kv * pick(rng, 1, 2), batch = pick(rng, 1, 2);
    const int64_t s_q = pick(rng, 1, draw % 8 == 0 ? 70 : 9), s_kv = pick(rng, 1, draw % 8 == 1 ? 400 : 140);
    const int64_t heads[] = {1, h_kv, h_q};
    std::vector<int64_t> shape{pick(rng, 0, 1) ? batch : 1, heads[pick(rng, 0, 2)], pick(rng, 0, 1) ? s_q : 1, s_kv};
    if (pick(rng, 0, 3) == 0) shape.erase(shape.begin(), shape.begin() + 2);
    const DType types[] = {DType::f32, DType::f16, DType::bf16};
    Bias bias;
    fill(bias, rng, types[draw % 3], shape, static_cast<Values>(pick(rng, 0, 4)));
    const int64_t windows[] = {0, 1, s_kv - 1, s_kv, s_kv + 5, pick(rng, 0, s_kv), pick(rng, 0, s_kv / 8 + 1)};
    const int64_t window = windows[pick(rng, 0, 6)];
    const Mask among = Mask::parse(candidate_texts[pick(rng, 0, 9)]);
    std::vector<MaskArgument> arguments{{"", bias.array}, {"", window}};
    if (pick(rng, 0, 3) > 0) arguments.push_back({"among", among});
    const Mask mask = Mask::leaf("topk", arguments);
    std::vector<Sequence> sequences;
    for (int64_t b = 0; b < batch; ++b) sequences.push_back({b, 0, s_q, 0, s_kv});
    const BoundMask bound = anymask::bind(mask, sequences, h_q, h_kv);
    const BoundMask candidates = anymask::bind(arguments.size() == 3 ? among : Mask(), sequences, h_q, h_kv);
    const TensorView& view = bias.array.view;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < h_q; ++h) {
        const PlaneMask& plane = bound.planes[static_cast<size_t>(bound.plane(b, h))];
        const PlaneMask& allowed = candidates.planes[static_cast<size_t>(candidates.plane(b, h))];
        for (int64_t q = 0; q < s_q; ++q) {
          int64_t row = 0;
          if (view.rank == 4) {
            const int64_t head = view.shape[1] == 1 ? 0 : view.shape[1] == h_q ? h : h / (h_q / h_kv);
            row = (view.shape[0] == 1 ? 0 : b) * view.stride[0] + head * view.stride[1];
          }
          row += (view.shape[view.rank - 2] == 1 ? 0 : q) * view.stride[view.rank - 2];
          std::vector<bool> may(static_cast<size_t>(s_kv));
          for (int64_t kv = 0; kv < s_kv; ++kv) may[kv] = allowed.keep(q, kv);
          const std::vector<bool> expected = sorted(view, row, window, may);
          for (int64_t kv = 0; kv < s_kv; kv += 64) {
            uint64_t word = 0;
            for (int64_t i = kv; i < std::min(kv + 64, s_kv); ++i) word |= uint64_t{expected[i]} << (i - kv);
            ASSERT_EQ(plane.word(q, kv), word) << mask.str() << " draw " << draw << " row " << q << " key " << kv;
            kept_pairs += std::popcount(word);
            dropped_pairs += std::min<int64_t>(64, s_kv - kv) - std::popcount(word);
          }
        }
      }
    }
  }
  EXPECT_GT(kept_pairs, 100'000);
  EXPECT_GT(dropped_pairs, 100'000);
}

// Long rows, several words of candidates, thresholds of neighbouring rows far apart; the two integers are those of the
// definition.
TEST(Topk, RowsAreCanonical) {
  std::mt19937_64 rng(21);
  for (int draw = 0; draw < 60; ++draw) {
    const int64_t s_q = 6, s_kv = pick(rng, 1000, 5000), window = pick(rng, 1, s_kv);
    const DType type = std::array{DType::f32, DType::f16, DType::bf16}[static_cast<size_t>(draw % 3)];
    Bias bias;
    fill(bias, rng, type, {s_q, s_kv}, static_cast<Values>(draw % 5));
    const TensorView& view = bias.array.view;
    const std::vector<TopkRow> rows = select_rows(view, s_q, window, nullptr);
    ASSERT_EQ(rows.size(), static_cast<size_t>(s_q));
    EXPECT_EQ(rows, select_rows(view, s_q, window, nullptr));
    for (int64_t q = 0; q < s_q; ++q) {
      const auto code = [&](int64_t kv) -> int32_t {
        const int64_t at = q * s_kv + kv;
        return type == DType::f32 ? Topk::code(view.as<uint32_t>()[at]) : Topk::code(view.as<uint16_t>()[at]);
      };
      const std::vector<bool> kept = sorted(view, q * s_kv, window, std::vector<bool>(static_cast<size_t>(s_kv), true));
      const std::vector<bool> all = sorted(view, q * s_kv, s_kv, std::vector<bool>(static_cast<size_t>(s_kv), true));
      TopkRow expected{INT32_MAX, -1};
      for (int64_t kv = 0; kv < s_kv; ++kv)
        if (kept[kv] && code(kv) <= expected.key) expected = {code(kv), static_cast<int32_t>(kv)};
      if (kept == all) expected = {type == DType::f32 ? -0x7f800000 : type == DType::f16 ? -0x7c00 : -0x7f80, -1};
      EXPECT_EQ(rows[q].key, expected.key) << draw << " row " << q;
      EXPECT_EQ(rows[q].tie, expected.tie) << draw << " row " << q;
    }
  }
}

TEST(Topk, OneRowForAllWhereAllAreAlike) {
  std::mt19937_64 rng(22);
  Bias bias;
  fill(bias, rng, DType::f16, {1, 300}, Values::normal);
  TensorView view = bias.array.view;
  view.stride[0] = 0;
  const std::vector<Sequence> sequences{{0, 0, 200, 0, 300}};
  const auto rows = [&](const char* among) {
    const BoundMask bound = anymask::bind(Mask::parse(among), sequences, 1, 1);
    return select_rows(view, 200, 16, &bound.planes[0]).size();
  };
  EXPECT_EQ(select_rows(view, 200, 16, nullptr).size(), 1u);
  EXPECT_EQ(rows("keys(9, 250) & ~keys(20, 31)"), 1u);
  EXPECT_EQ(rows("causal"), 200u);
}

}  // namespace
}  // namespace anymask
