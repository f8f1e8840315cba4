// What a card does at its best, measured: the peak that shares of peak refer to.
#include <algorithm>

#include "backend/device_memory.h"
#include "cuda/launch/device.h"
#include "cuda/launch/peak.h"

namespace anymask {
namespace {

class Timer {
 public:
  Timer() {
    check_cuda(cudaEventCreate(&begin_), "measuring the peak");
    check_cuda(cudaEventCreate(&end_), "measuring the peak");
  }
  ~Timer() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  // Seconds of what `work` enqueues: the best of five, after one that warms up.
  template <class Work>
  double best(Work work) const {
    float least = 0;
    for (int i = 0; i < 6; ++i) {
      check_cuda(cudaEventRecord(begin_), "measuring the peak");
      work();
      check_cuda(cudaEventRecord(end_), "measuring the peak");
      check_cuda(cudaEventSynchronize(end_), "measuring the peak");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "measuring the peak");
      if (i > 0) least = i == 1 ? ms : std::min(least, ms);
    }
    return double{least} * 1e-3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class Buffer {
 public:
  explicit Buffer(size_t bytes) { check_cuda(cudaMalloc(&data_, bytes), "measuring the peak"); }
  ~Buffer() { static_cast<void>(cudaFree(data_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace

DevicePeak device_peak(int32_t index) {
  const CudaDevice& device = cuda_device(index);
  const DeviceScope scope(index);
  const Timer timer;
  constexpr size_t copy_bytes = size_t{512} << 20;
  const Buffer from(copy_bytes), to(copy_bytes);
  const bool sm90 = device.major == 9;
  const int32_t blocks = device.num_sms * (sm90 ? 1 : 4), steps = sm90 ? 20000 : 40000;
  const double seconds = timer.best([&] {
    auto* sink = static_cast<float*>(to.data());
    sm90 ? launch_sm90_peak(sink, blocks, steps, nullptr) : launch_sm80_peak(sink, blocks, steps, nullptr);
    check_cuda(cudaGetLastError(), "measuring the peak");
  });
  const double flops = (sm90 ? sm90_peak_flops_per_step() : sm80_peak_flops_per_step()) * blocks * steps / seconds;
  const double copying = timer.best([&] {
    check_cuda(cudaMemcpyAsync(to.data(), from.data(), copy_bytes, cudaMemcpyDeviceToDevice), "measuring the peak");
  });
  return {flops, 2.0 * static_cast<double>(copy_bytes) / copying};
}

}  // namespace anymask
