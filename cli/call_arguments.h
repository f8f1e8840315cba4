// The library's arguments for a call.
#pragma once

#include <memory>
#include <vector>

#include "cli/call.h"

namespace anymask::cli {

// Option struct and views of one call, alive while the library runs.
class CallArguments {
 public:
  explicit CallArguments(const Call& call) {
    options.struct_size = sizeof(anymask_options);
    options.mask = call.mask.get();
    options.softmax_scale = call.scale ? &*call.scale : nullptr;
    options.softcap = call.softcap;
    options.bias = view(call.bias);
    options.alibi_slopes = view(call.alibi);
    options.sinks = view(call.sinks);
    options.cu_seqlens_q = view(call.cu_seqlens_q);
    options.cu_seqlens_kv = view(call.cu_seqlens_kv);
    options.deterministic = call.deterministic ? 1 : 0;
    options.num_threads = static_cast<int32_t>(call.threads);
    options.backend = call.backend.c_str();
  }
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  // Null for a tensor that is not there.
  const DLTensor* view(const Tensor& tensor) {
    if (!tensor.present) return nullptr;
    views_.push_back(std::make_unique<DLTensor>(tensor.view()));
    if (pretended_ >= 0) move(*views_.back());
    return views_.back().get();
  }

  // All views say that their memory is on that CUDA device, and give none: enough for a question about shapes.
  void pretend_device(int32_t device) {
    pretended_ = device;
    for (const auto& view : views_) move(*view);
  }

  anymask_options options{};

 private:
  void move(DLTensor& view) const {
    const bool offsets = &view == options.cu_seqlens_q || &view == options.cu_seqlens_kv;  // these stay on the host
    if (!offsets) view.device = {kDLCUDA, pretended_}, view.data = nullptr;
  }

  std::vector<std::unique_ptr<DLTensor>> views_;
  int32_t pretended_ = -1;
};

}  // namespace anymask::cli
