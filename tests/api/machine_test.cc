// Versions, errors, backends, the processor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

#include <algorithm>
#include <thread>

namespace {

using namespace anymask;
using testing::HasSubstr;

TEST(Machine, Version) { EXPECT_EQ(version(), "0.1.0"); }

TEST(Machine, ErrorsBelongToTheirThread) {
  EXPECT_EQ(anymask_forward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), ANYMASK_INVALID_ARGUMENT);
  EXPECT_THAT(anymask_last_error(), HasSubstr("attention: q is NULL"));
  std::thread([] {
    EXPECT_STREQ(anymask_last_error(), "");
    EXPECT_EQ(anymask_mask_digest(nullptr, nullptr), ANYMASK_INVALID_ARGUMENT);
    EXPECT_THAT(anymask_last_error(), HasSubstr("mask digest"));
  }).join();
  EXPECT_THAT(anymask_last_error(), HasSubstr("attention: q is NULL"));
}

TEST(Machine, BackendsSayWhetherTheyCan) {
  const std::string json = backends();
  EXPECT_THAT(json, HasSubstr(R"("cpu": {"available": true, "target": ")"));
  EXPECT_THAT(json, HasSubstr(R"("reference": {"available": true})"));
  EXPECT_THAT(json, HasSubstr(R"("naive": {"available": true})"));
  EXPECT_THAT(json, HasSubstr(R"("cuda": {"available": )"));
}

// With a device: a round trip. Without one: an error that says what is missing, and no memory.
TEST(Machine, DeviceMemory) {
  int32_t there = 7, back = 0;
  void* memory = &there;
  const anymask_status status = anymask_cuda_malloc(0, sizeof there, &memory);
  if (status != ANYMASK_OK) {
    EXPECT_EQ(status, ANYMASK_UNSUPPORTED);
    EXPECT_THAT(anymask_last_error(), HasSubstr("cuda: "));
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(anymask_cuda_copy(&back, &there, sizeof back), ANYMASK_UNSUPPORTED);
    EXPECT_EQ(anymask_cuda_synchronize(0), ANYMASK_UNSUPPORTED);
    EXPECT_EQ(anymask_cuda_peak(0, nullptr, nullptr), ANYMASK_UNSUPPORTED);
  } else {
    EXPECT_EQ(anymask_cuda_copy(memory, &there, sizeof there), ANYMASK_OK);
    EXPECT_EQ(anymask_cuda_copy(&back, memory, sizeof back), ANYMASK_OK);
    EXPECT_EQ(anymask_cuda_synchronize(0), ANYMASK_OK);
    EXPECT_EQ(back, there);
    double flops = 0, copy_bytes = 0;
    EXPECT_EQ(anymask_cuda_peak(0, &flops, &copy_bytes), ANYMASK_OK);
    EXPECT_GT(flops, 1e12);
    EXPECT_GT(copy_bytes, 1e10);
    EXPECT_EQ(anymask_cuda_malloc(9999, 1, &memory), ANYMASK_INVALID_ARGUMENT);
  }
  anymask_cuda_free(memory);
  EXPECT_EQ(anymask_cuda_malloc(0, 1, nullptr), ANYMASK_INVALID_ARGUMENT);
  EXPECT_EQ(anymask_cuda_copy(nullptr, &there, 4), ANYMASK_INVALID_ARGUMENT);
  EXPECT_EQ(anymask_cuda_copy(nullptr, nullptr, 0), ANYMASK_OK);
}

TEST(Machine, TargetsCanBeForced) {
  const std::string targets = cpu_targets();
  ASSERT_FALSE(targets.empty());
  const std::string last = targets.substr(targets.find_last_of(' ') + 1);
  force_cpu_target(last);
  EXPECT_THAT(backends(), HasSubstr("\"target\": \"" + last + "\""));
  force_cpu_target("");
  EXPECT_THROW(force_cpu_target("Z80"), Error);
  EXPECT_EQ(anymask_cpu_force_target(nullptr), ANYMASK_INVALID_ARGUMENT);
  EXPECT_EQ(anymask_cpu_targets(nullptr), ANYMASK_INVALID_ARGUMENT);
}

TEST(Machine, PeakIsMeasured) {
  EXPECT_GT(cpu_peak(DType::float32, 1), 1e8);
  EXPECT_GE(cpu_peak(DType::bfloat16, 1), 0);
  EXPECT_THROW(cpu_peak(DType::int32, 1), Error);
  EXPECT_THROW(cpu_peak(DType::float32, -1), Error);
}

TEST(Machine, ProductsAreMeasured) {
  for (const int32_t head_dim : {8, 64, 72, 256}) {
    const double flops = cpu_products(head_dim, 1);
    EXPECT_GT(flops, 1e8);
    // Operations counted twice would show. The machine may do other work during one of the two: the best peak counts.
    double peak = 0;
    for (int i = 0; i < 20 && flops >= 1.5 * peak; ++i) peak = std::max(peak, cpu_peak(DType::float32, 1));
    EXPECT_LT(flops, 1.5 * peak);
  }
  EXPECT_GT(cpu_products(64, 2), 1e8);
  EXPECT_THROW(cpu_products(0, 1), Error);
  EXPECT_THROW(cpu_products(12, 1), Error);
  EXPECT_THROW(cpu_products(264, 1), Error);
  EXPECT_THROW(cpu_products(64, -1), Error);
  EXPECT_EQ(anymask_cpu_products(64, 1, nullptr), ANYMASK_INVALID_ARGUMENT);
}

TEST(Machine, FreeingNothingIsFine) { anymask_free(nullptr); }

}  // namespace
