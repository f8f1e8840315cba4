// What a thread remembers of masks says what is made anew.
#include "cuda/launch/known_mask.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>

#include "cuda/config/facts.h"

namespace anymask {
namespace {

// The band's head and block, the block's place left out.
std::vector<std::byte> told(const BandSource& band) {
  std::vector<std::byte> block(band.bytes());
  CudaBand out{};
  band.enqueue(out, block.data(), nullptr);
  if (!block.empty()) out.data = nullptr;
  const auto* bytes = reinterpret_cast<const std::byte*>(&out);
  block.insert(block.end(), bytes, bytes + sizeof out);
  return block;
}

// More masks, lengths and shapes than are kept, in no order.
TEST(KnownMask, SaysWhatIsMadeAnew) {
  constexpr const char* texts[] = {"full",         "none",         "causal",
                                   "window(7, 0)", "window(8, 0)", "causal & window(100, 0)",
                                   "keys(0, 9)",   "prefix(20)",   "causal | prefix(30)",
                                   "chunked(16)",  "~causal",      "causal & stride(3)"};
  std::mt19937 rng(20261201);
  const auto any = [&rng](auto... values) {
    const int64_t all[] = {static_cast<int64_t>(values)...};
    return all[rng() % sizeof...(values)];
  };
  int hits = 0;
  for (int round = 0; round < 4000; ++round) {
    const bool few = round % 4 != 0;  // so that most rounds ask again
    AttentionProblem problem;
    problem.h_q = few ? 4 : any(1, 4, 8);
    problem.h_kv = few ? 2 : any(1, problem.h_q);
    problem.d_qk = few ? 64 : any(16, 64, 128);
    problem.d_v = few ? 64 : any(16, 64, 128);
    problem.packed = any(0, 1) != 0;
    int64_t tokens = 0;
    for (int64_t i = 0, n = few ? 2 : any(0, 1, 2, 300); i < n; ++i) {
      const int64_t s_q = few ? 50 : any(0, 1, 50, 2000), s_kv = few ? 50 : any(0, 50, 3000);
      problem.sequences.push_back(
          {problem.packed ? 0 : i, problem.packed ? tokens : 0, s_q, problem.packed ? tokens : 0, s_kv});
      tokens += std::max(s_q, s_kv);
      problem.max_s_q = std::max(problem.max_s_q, s_q);
      problem.max_s_kv = std::max(problem.max_s_kv, s_kv);
    }
    const Mask mask = Mask::parse(texts[rng() % (few ? 4 : std::size(texts))]);
    PlanShape shape{.tile_m = static_cast<int32_t>(any(64, 128)), .transposed = any(0, 1) != 0};
    if (!shape.transposed) shape.parallelism = static_cast<int32_t>(any(0, 132));
    if (!shape.transposed && problem.h_q % 2 == 0) shape.fold = static_cast<int32_t>(any(1, 2));
    shape.per_kv_head = shape.transposed && any(0, 1) != 0;
    const bool reads = any(0, 1, 1, 1) != 0;

    const std::shared_ptr<KnownMask> known = KnownMask::of(mask, problem);
    hits += KnownMask::of(mask, problem) == known;
    const std::shared_ptr<const BandSource> band = known->band(shape, reads);
    EXPECT_EQ(known->band(shape, reads), band);
    const BandSource anew(anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv), problem, shape, reads);
    ASSERT_EQ(band->refusal(), anew.refusal()) << mask.str();
    if (!anew.refusal().empty()) continue;
    ASSERT_EQ(band->max_items(), anew.max_items()) << mask.str();
    ASSERT_EQ(band->partial_slots(), anew.partial_slots()) << mask.str();
    ASSERT_EQ(told(*band), told(anew)) << mask.str();
  }
  EXPECT_EQ(hits, 4000);
}

// Arrays may change between calls.
TEST(KnownMask, KeepsNoArrays) {
  std::vector<int32_t> offsets = {0, 10, 50};
  TensorView view;
  view.data = offsets.data();
  view.dtype = DType::i32;
  view.rank = 1;
  view.shape[0] = 3;
  view.stride[0] = 1;
  const Array array = Array::borrow(view, "cu");
  const Mask mask = Mask::parse("documents(@cu)", std::span(&array, 1));
  AttentionProblem problem;
  problem.h_q = problem.h_kv = 1;
  problem.d_qk = problem.d_v = 64;
  problem.sequences = {{0, 0, 50, 0, 50}};
  problem.max_s_q = problem.max_s_kv = 50;
  const std::vector<std::byte> before = told(*KnownMask::of(mask, problem)->band({}, true));
  offsets[1] = 30;
  EXPECT_NE(told(*KnownMask::of(mask, problem)->band({}, true)), before);
}

}  // namespace
}  // namespace anymask
