// Work captured once in a CUDA graph, on a stream of its own, and replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace anymask {

class Captured {
 public:
  // `work(stream)` enqueues.
  template <class Work>
  explicit Captured(Work&& work) {
    require(cudaStreamCreate(&stream_), "creating a stream");
    require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing");
    work(stream_);
    require(cudaStreamEndCapture(stream_, &graph_), "capturing");
    require(cudaGraphInstantiate(&ready_, graph_, 0), "instantiating");
  }
  ~Captured() {
    if (ready_ != nullptr) cudaGraphExecDestroy(ready_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  cudaStream_t stream() const { return stream_; }
  size_t nodes() const {
    size_t count = 0;
    require(cudaGraphGetNodes(graph_, nullptr, &count), "counting nodes");
    return count;
  }
  void launch() const { require(cudaGraphLaunch(ready_, stream_), "replaying"); }
  void replay() const {  // and wait
    launch();
    require(cudaStreamSynchronize(stream_), "replaying");
  }

 private:
  static void require(cudaError_t status, const char* doing) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorString(status));
  }

  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

}  // namespace anymask
