// The emulator itself: kernels of a few lines that do what they should, and others that do not and are found out.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/emulation/device_keywords.h"
// Keywords come first: stand-ins are written with them.
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/threads.cuh"
#include "cuda/ptx/tma.cuh"

namespace anymask::emulation {
namespace {

alignas(1024) uint8_t shared_bytes[4096];

struct Shared {
  alignas(16) uint32_t words[64];
  uint64_t full, empty;
};
Shared& shared() { return *reinterpret_cast<Shared*>(shared_bytes); }

// What went wrong; "" where nothing did.
std::string fault_of(Schedule schedule, unsigned threads, const std::function<void()>& kernel) {
  try {
    run({.grid = dim3(2), .threads = threads, .shared = shared_bytes, .schedule = schedule}, kernel);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

class EachSchedule : public testing::TestWithParam<Schedule> {
 protected:
  std::string fault_of(unsigned threads, const std::function<void()>& kernel) const {
    return emulation::fault_of(GetParam(), threads, kernel);
  }
};
INSTANTIATE_TEST_SUITE_P(Emulator, EachSchedule, testing::Values(Schedule::early, Schedule::late),
                         [](const auto& of) { return of.param == Schedule::early ? "early" : "late"; });

// Warp 0 loads `rounds` times 64 words into one buffer; warp 1 sums them up. The flags leave out one step each.
struct Pipeline {
  int rounds = 5;
  bool release = true, wait_full = true, wait_empty = true;
  std::vector<uint32_t> source = std::vector<uint32_t>(64 * 5);
  std::vector<uint32_t> sums = std::vector<uint32_t>(32);

  void operator()() {
    if (threadIdx.x == 0) {
      ptx::mbarrier_init(shared().full, 1);
      ptx::mbarrier_init(shared().empty, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < rounds; ++i) {
        if (wait_empty) ptx::mbarrier_wait(shared().empty, (i & 1) ^ 1);
        ptx::mbarrier_arrive_expect(shared().full, 256);
        ptx::bulk_load(shared().words, &source[static_cast<size_t>(i) * 64], 256, shared().full);
      }
    } else if (threadIdx.x >= 32) {
      uint32_t sum = 0;
      const uint32_t lane = threadIdx.x % 32;
      for (int i = 0; i < rounds; ++i) {
        if (wait_full) ptx::mbarrier_wait(shared().full, i & 1);
        sum += shared().words[lane] + shared().words[lane + 32];
        __syncwarp();
        if (release && lane == 0) ptx::mbarrier_arrive(shared().empty);
      }
      sums[lane] = sum;
    }
  }
  bool right() const {
    for (size_t lane = 0; lane < 32; ++lane) {
      uint32_t sum = 0;
      for (size_t i = 0; i < 2 * static_cast<size_t>(rounds); ++i) sum += source[i * 32 + lane];
      if (sums[lane] != sum) return false;
    }
    return true;
  }
  Pipeline() {
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint32_t>(i * i);
  }
};

TEST_P(EachSchedule, RunsAPipeline) {
  Pipeline pipeline;
  EXPECT_EQ(fault_of(64, std::ref(pipeline)), "");
  EXPECT_TRUE(pipeline.right());
}

TEST_P(EachSchedule, AMissingArrivalIsADeadlock) {
  Pipeline pipeline;
  pipeline.release = false;
  const std::string fault = fault_of(64, std::ref(pipeline));
  EXPECT_NE(fault.find("deadlock"), std::string::npos) << fault;
  EXPECT_NE(fault.find("an mbarrier"), std::string::npos) << fault;
}

// Each missing wait shows where copies come at the wrong end of their span.
TEST(Emulator, AMissingWaitForDataShowsInTheLateSchedule) {
  Pipeline pipeline;
  pipeline.wait_full = false;
  const std::string fault = fault_of(Schedule::late, 64, std::ref(pipeline));
  EXPECT_TRUE(!fault.empty() || !pipeline.right());
}
TEST(Emulator, AMissingWaitForSpaceShowsInTheEarlySchedule) {
  Pipeline pipeline;
  pipeline.wait_empty = false;
  const std::string fault = fault_of(Schedule::early, 64, std::ref(pipeline));
  EXPECT_TRUE(!fault.empty() || !pipeline.right());
}

TEST_P(EachSchedule, ShufflesAndVotes) {
  std::vector<int> next(32), other(32), any(32);
  const auto kernel = [&] {
    const int lane = static_cast<int>(threadIdx.x);
    const auto at = static_cast<size_t>(lane);
    next[at] = __shfl_sync(0xffffffffu, lane * 10, (lane + 1) % 32);
    other[at] = __shfl_xor_sync(0xffffffffu, lane * 10, 5);
    any[at] = __any_sync(0xffffffffu, lane == 17) + 2 * __all_sync(0xffffffffu, lane != 17);
  };
  EXPECT_EQ(fault_of(32, kernel), "");
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = static_cast<size_t>(lane);
    EXPECT_EQ(next[at], (lane + 1) % 32 * 10);
    EXPECT_EQ(other[at], (lane ^ 5) * 10);
    EXPECT_EQ(any[at], 1);
  }
}

TEST_P(EachSchedule, LanesThatPartAreFound) {
  const std::string fault = fault_of(32, [] {
    if (threadIdx.x < 16) {
      __syncwarp();
    } else {
      __any_sync(0xffffffffu, true);
    }
  });
  EXPECT_NE(fault.find("lanes of a warp meet"), std::string::npos) << fault;
}

TEST_P(EachSchedule, ANamedBarrierLeftBehindIsFound) {
  const std::string fault = fault_of(64, [] {
    if (threadIdx.x >= 32) ptx::barrier_arrive(3, 64);
  });
  EXPECT_NE(fault.find("named barrier 3"), std::string::npos) << fault;
}

TEST_P(EachSchedule, BarriersAreInitialisedAndNotOverrun) {
  EXPECT_NE(fault_of(32, [] { ptx::mbarrier_arrive(shared().full); }).find("not initialised"), std::string::npos);
  const std::string fault = fault_of(32, [] {
    if (threadIdx.x != 0) return;
    ptx::mbarrier_init(shared().full, 1);
    ptx::mbarrier_arrive_expect(shared().full, 16);
    ptx::mbarrier_arrive(shared().full);
  });
  EXPECT_NE(fault.find("more arrivals"), std::string::npos) << fault;
}

}  // namespace
}  // namespace anymask::emulation
