// Runs a call where its backend computes.
#include <algorithm>
#include <vector>

#include "cli/call.h"
#include "cli/call_arguments.h"
#include "cli/device.h"

namespace anymask::cli {

namespace {

void call_forward(const Call& call, const Results& results, void* workspace, size_t workspace_bytes) {
  CallArguments arguments(call);
  arguments.options.workspace = workspace;
  arguments.options.workspace_bytes = workspace_bytes;
  check(anymask_forward(arguments.view(call.q), arguments.view(call.k), arguments.view(call.v),
                        arguments.view(results.out), arguments.view(results.lse), &arguments.options));
}

void call_backward(const Call& call, const Results& results, void* workspace, size_t workspace_bytes) {
  CallArguments arguments(call);
  arguments.options.workspace = workspace;
  arguments.options.workspace_bytes = workspace_bytes;
  arguments.options.dlse = arguments.view(call.dlse);
  arguments.options.dbias = arguments.view(results.dbias);
  arguments.options.dsinks = arguments.view(results.dsinks);
  check(anymask_backward(arguments.view(call.dout), arguments.view(call.q), arguments.view(call.k),
                         arguments.view(call.v), arguments.view(results.out), arguments.view(results.lse),
                         arguments.view(results.dq), arguments.view(results.dk), arguments.view(results.dv),
                         &arguments.options));
}

size_t workspace_size(const Call& call, const Results& results, bool backward) {
  CallArguments arguments(call);
  if (backward) {
    arguments.options.dlse = arguments.view(call.dlse);
    arguments.options.dbias = arguments.view(results.dbias);
    arguments.options.dsinks = arguments.view(results.dsinks);
  }
  size_t bytes = 0;
  check(anymask_workspace_bytes(arguments.view(call.q), arguments.view(call.k), arguments.view(call.v),
                                &arguments.options, backward ? 1 : 0, &bytes));
  return bytes;
}

}  // namespace

// The mask over the device's copy of the call's bias, where it is made of it: then rows are selected there.
std::shared_ptr<anymask_mask_s> mask_over(const Call& call, const Tensor& bias) {
  char* raw = nullptr;
  check(anymask_mask_text(call.mask.get(), &raw));
  const std::string text = take(raw);
  const bool another = std::any_of(call.mask_arrays.begin(), call.mask_arrays.end(),
                                   [](const Tensor& array) { return array.name == "bias"; });
  if (!bias.present || another || text.find("@bias") == std::string::npos) return call.mask;
  std::vector<DLTensor> views{bias.view()};
  for (const Tensor& array : call.mask_arrays) views.push_back(array.view());
  std::vector<anymask_named_array> named{{"bias", &views[0], 0}};
  for (size_t i = 0; i < call.mask_arrays.size(); ++i)
    named.push_back({call.mask_arrays[i].name.c_str(), &views[i + 1], 0});
  anymask_mask_t mask = nullptr;
  check(anymask_mask_parse(text.c_str(), named.data(), static_cast<int64_t>(named.size()), &mask));
  return std::shared_ptr<anymask_mask_s>(mask, anymask_mask_free);
}

// Offsets and the mask's own arrays stay on the host, where the library reads them.
class Runner::OnDevice {
 public:
  OnDevice(const Call& call, const Results& results) : call_(call), results_(results) {
    for (Tensor* tensor :
         {&call_.q, &call_.k, &call_.v, &call_.bias, &call_.alibi, &call_.sinks, &call_.dout, &call_.dlse})
      *tensor = to_device(*tensor, device);
    if (call_.mask) call_.mask = mask_over(call_, call_.bias);
    for (Tensor* tensor : results_.all()) *tensor = to_device(*tensor, device);
    workspace_bytes_ = workspace_size(call_, results_, false);
    if (call_.backward()) workspace_bytes_ = std::max(workspace_bytes_, workspace_size(call_, results_, true));
    workspace_ = device_memory(device, workspace_bytes_);
    const std::vector<char> poison(workspace_bytes_, static_cast<char>(0xff));
    if (workspace_bytes_ > 0) check(anymask_cuda_copy(workspace_.get(), poison.data(), workspace_bytes_));
  }
  void forward() { call_forward(call_, results_, workspace_.get(), workspace_bytes_); }
  void backward() { call_backward(call_, results_, workspace_.get(), workspace_bytes_); }
  static void wait() { check(anymask_cuda_synchronize(device)); }
  void read(Results& host) const {
    const std::vector<Tensor*> to = host.all();
    const std::vector<const Tensor*> from = results_.all();
    for (size_t i = 0; i < to.size(); ++i) to_host(*from[i], *to[i]);
  }

 private:
  static constexpr int32_t device = 0;
  Call call_;
  Results results_;
  std::shared_ptr<void> workspace_;
  size_t workspace_bytes_ = 0;
};

Runner::Runner(const Call& call, Results& results) : call_(call), results_(results) {
  if (call.backend == "cuda") device_ = std::make_unique<OnDevice>(call, results);
}
Runner::~Runner() = default;

void Runner::forward() { device_ ? device_->forward() : call_forward(call_, results_, nullptr, 0); }
void Runner::backward() { device_ ? device_->backward() : call_backward(call_, results_, nullptr, 0); }
void Runner::wait() {
  if (device_) OnDevice::wait();
}
void Runner::finish() {
  wait();
  if (device_) device_->read(results_);
}

void forward(const Call& call, Results& results) {
  Runner runner(call, results);
  runner.forward();
  runner.finish();
}

void backward(const Call& call, Results& results) {
  Runner runner(call, results);
  runner.backward();
  runner.finish();
}

}  // namespace anymask::cli
