// topk_select on the device against a sort: rows for every kernel, from one key to more than a cluster holds; capture
// and replay; repeats.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "cuda/captured.h"
#include "cuda/launch/device.h"
#include "cuda/launch/topk_select.h"
#include "cuda/topk_check.h"

namespace anymask {
namespace {

// Device memory handed out for one case at a time.
class Arena {
 public:
  Arena() { check_cuda(cudaMalloc(&data_, bytes_), "allocating"); }
  ~Arena() { cudaFree(data_); }
  void clear() { used_ = 0; }
  void* put(const void* data, size_t bytes) {
    void* const at = static_cast<char*>(data_) + used_;
    used_ += (bytes + 511) / 256 * 256;
    if (used_ > bytes_) throw std::runtime_error("a case is larger than the arena");
    check_cuda(cudaMemcpy(at, data, bytes, cudaMemcpyHostToDevice), "uploading");
    return at;
  }

 private:
  static constexpr size_t bytes_ = size_t{256} << 20;
  void* data_ = nullptr;
  size_t used_ = 0;
};

class TopkSelect : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    if (!cuda_available().yes) GTEST_SKIP() << cuda_available().reason;
    check_cuda(cudaStreamCreate(&stream_), "creating a stream");
    arena_ = std::make_unique<Arena>();
    machine_.device = cuda_device(0);
    machine_.put = [this](const void* data, size_t bytes) { return arena_->put(data, bytes); };
    machine_.get = [this](void* to, const void* from, size_t bytes) {
      check_cuda(cudaStreamSynchronize(stream_), "selecting");
      check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "downloading");
    };
    machine_.run = [this](const TopkParams& params, const TopkSelectConfig& config) {
      launch_topk_select(params, config, machine_.device, stream_);
    };
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  std::string check(const TopkCase& c) {
    arena_->clear();
    return TopkCheck(c, machine_).run();
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Arena> arena_;
  TopkMachine machine_;
};

TEST_P(TopkSelect, ShortRows) {
  for (uint32_t i = 0; i < 500; ++i) {
    const TopkCase c = random_topk_case(GetParam() * 1000 + i, i % 2 == 0 ? 300 : 4200, 100);
    ASSERT_EQ(check(c), "") << c;
  }
}
TEST_P(TopkSelect, LongRows) {
  for (uint32_t i = 0; i < 12; ++i) {
    const TopkCase c = random_topk_case(100000 + GetParam() * 1000 + i, i < 8 ? 70000 : 700000, i < 8 ? 8 : 2);
    ASSERT_EQ(check(c), "") << c;
  }
}
INSTANTIATE_TEST_SUITE_P(Draws, TopkSelect, testing::Range(uint32_t{0}, uint32_t{10}));

// Enough rows for every warp to take several, and one after the other to find a slot that is still in use.
TEST_F(TopkSelect, ManyRows) {
  for (const int32_t keys : {1000, 4096, 9000}) {
    TopkCase c{.planes = 3, .rows = 3333, .keys = keys, .window = keys / 16, .tile_m = 128};
    ASSERT_EQ(check(c), "") << c;
    c.among = TopkAmong::limits;
    ASSERT_EQ(check(c), "") << c;
  }
}

TEST_F(TopkSelect, CapturedAndReplayed) {
  machine_.run = [this](const TopkParams& params, const TopkSelectConfig& config) {
    const Captured selection([&](cudaStream_t stream) { launch_topk_select(params, config, machine_.device, stream); });
    for (int i = 0; i < 2; ++i) selection.launch();
    selection.replay();
  };
  for (uint32_t seed = 1; seed < 20; ++seed) {
    const TopkCase c = random_topk_case(seed, seed < 15 ? 5000 : 150000, 9);
    ASSERT_EQ(check(c), "") << c;
  }
}

}  // namespace
}  // namespace anymask
