// topk_select from its own source on the emulator, with its launcher and configuration, against a sort.
#include <gtest/gtest.h>

#include <memory>

#include "cuda/emulation/device_keywords.h"
// Keywords come first: kernels are written with them.
#include "cuda/emulation/launches.h"
#include "cuda/launch/topk_select_choice.cuh"
#include "cuda/topk_check.h"

namespace anymask {

namespace topk {
alignas(128) unsigned char memory[sizeof(Shared<16>)];
}

namespace {

template <class Keys>
void run(const TopkParams& params, const TopkSelectConfig& config) {
  topk::choose_kernel<Keys>(config, [&]<class K, class S>() {
    if constexpr (!S::cluster) {
      emulation::run({.grid = dim3(static_cast<unsigned>(config.blocks)),
                      .threads = 32 * topk::block_warps,
                      .shared = {topk::memory, sizeof(topk::Shared<S::chunks>)},
                      .schedule = emulation::schedule},
                     [&] { topk::topk_select<K, S::chunks, S::warps, S::cluster, S::streamed>(params); });
    }
  });
}

// Lengths that need each kernel but a cluster's.
std::string check(const TopkCase& c) {
  std::vector<std::unique_ptr<uint4[]>> memory;
  TopkMachine machine;
  machine.device.major = 8;
  machine.device.num_sms = 2;
  machine.put = [&](const void* data, size_t bytes) {
    memory.push_back(std::make_unique<uint4[]>(bytes / 16 + 1));
    std::memcpy(memory.back().get(), data, bytes);
    return memory.back().get();
  };
  machine.get = [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); };
  machine.run = [](const TopkParams& params, const TopkSelectConfig& config) {
    launch_topk_select(params, config, {}, nullptr);
  };
  return TopkCheck(c, machine).run();
}

class TopkSelect : public testing::TestWithParam<emulation::Schedule> {
 protected:
  void SetUp() override { emulation::schedule = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Emulated, TopkSelect, testing::Values(emulation::Schedule::early, emulation::Schedule::late),
                         [](const auto& of) { return of.param == emulation::Schedule::early ? "early" : "late"; });

// Every fp16 code that is counted by a line, against the values next to it and those far from it.
TEST(HalfLine, IsAComparison) {
  const auto value = [](int32_t code) { return static_cast<uint32_t>(code < 0 ? 0x8000 - code : code); };
  int lines = 0;
  for (int32_t code = -0x7bff; code <= 0x7c01; ++code) {
    const topk::HalfLine line(code);
    if (!line.straight()) continue;
    ++lines;
    for (const int32_t x : {code - 2, code - 1, code, code + 1, code + 2, code / 2, 2 * code, -code, -0x7c00, -0x7bff,
                            -0x400, -1, 0, 1, 0x3ff, 0x400, 0x7bff, 0x7c00}) {
      if (x < -0x7c00 || x > 0x7c00) continue;
      ASSERT_EQ(line.reached(value(x) | 0x7e000000u), x >= code ? 0x3c00u : 0u) << code << " " << x;
    }
    ASSERT_EQ(line.reached(0xffff8000u), code <= 0 ? 0x3c00u : 0u) << code;  // -0
  }
  EXPECT_GT(lines, 40000);
}

TEST_P(TopkSelect, ShortRows) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    const TopkCase c = random_topk_case(seed, 1100, 40);
    ASSERT_EQ(check(c), "") << c;
  }
}
TEST_P(TopkSelect, RowsOfSeveralWarps) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const TopkCase c = random_topk_case(1000 + seed, 20000, 5);
    ASSERT_EQ(check(c), "") << c;
  }
}
TEST_P(TopkSelect, RowsThatAreReadAgain) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    TopkCase c{.dtype = dtype, .rows = 2, .keys = 70001, .window = 3000, .values = TopkValues::few, .tile_m = 64};
    ASSERT_EQ(check(c), "") << c;
    c.values = TopkValues::normal;
    c.among = TopkAmong::both;
    ASSERT_EQ(check(c), "") << c;
  }
}

}  // namespace

template <>
void launch_topk_select_of<DType::f16>(const TopkParams& params, const TopkSelectConfig& config, const CudaDevice&,
                                       cudaStream_t) {
  run<topk::KeysF16>(params, config);
}
template <>
void launch_topk_select_of<DType::bf16>(const TopkParams& params, const TopkSelectConfig& config, const CudaDevice&,
                                        cudaStream_t) {
  run<topk::KeysBf16>(params, config);
}
template <>
void launch_topk_select_of<DType::f32>(const TopkParams& params, const TopkSelectConfig& config, const CudaDevice&,
                                       cudaStream_t) {
  run<topk::Keys32>(params, config);
}

}  // namespace anymask
