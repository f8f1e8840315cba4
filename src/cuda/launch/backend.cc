// CUDA devices as a backend: what it supports, which kernel computes a call, and how the caller's workspace is used.
#include "backend/backend.h"

#include <sstream>

#include "core/error.h"
#include "cuda/launch/backward_call.h"
#include "cuda/launch/device.h"
#include "cuda/launch/forward_call.h"
#include "cuda/launch/gathered.h"
#include "cuda/launch/known_mask.h"

namespace anymask {
namespace {

using Forward = CallOverKeys<ForwardCall, Direction::forward>;
using Backward = CallOverKeys<BackwardCall, Direction::backward>;

bool computes(DType type) { return type == DType::bf16 || type == DType::f16; }
bool reads(DType type) { return computes(type) || type == DType::f32; }

class CudaBackend final : public Backend {
 public:
  const char* name() const override { return "cuda"; }
  Device device() const override { return {DeviceKind::cuda, 0}; }
  Support available() const override { return cuda_available(); }
  std::vector<Fact> machine() const override {
    std::vector<Fact> facts;
    for (int32_t i = 0; i < cuda_device_count(); ++i) facts.push_back({cat("device ", i), cuda_device(i).name});
    return facts;
  }

  Support supports(const AttentionProblem& problem, Direction) const override {
    if (const Support here = available(); !here.yes) return here;
    const auto refuse = [](const char* what, DType type, const char* expected) {
      return Support{false, cat(what, " of type ", name_of(type), "; the CUDA backend takes ", expected,
                                ": convert it, or compute on the CPU")};
    };
    if (!computes(problem.dtype)) return refuse("tensors", problem.dtype, "bfloat16 and float16");
    constexpr const char* three = "float32, bfloat16 and float16";
    if (problem.bias.defined() && !reads(problem.bias.dtype)) return refuse("a bias", problem.bias.dtype, three);
    if (problem.alibi.defined() && !reads(problem.alibi.dtype))
      return refuse("ALiBi slopes", problem.alibi.dtype, three);
    if (problem.sinks.defined() && !reads(problem.sinks.dtype)) return refuse("sinks", problem.sinks.dtype, three);
    const CudaDevice& device = cuda_device(problem.device.index);
    if (device.major < 8)
      return {false, cat(device.name, " has compute capability ", device.major, ".", device.minor,
                         "; the CUDA backend needs 8.0 (Ampere) or newer: use another device, or compute on the CPU")};
    return {};
  }

  size_t workspace_bytes(const AttentionProblem& problem, const Mask& mask, Direction direction) const override {
    const DeviceScope scope(problem.device.index);
    return direction == Direction::forward ? call<Forward>(problem, mask, nullptr).bytes()
                                           : call<Backward>(problem, mask, nullptr).bytes();
  }

  void forward(const AttentionProblem& problem, const Mask& mask, const Launch& launch) const override {
    enqueue<Forward>("attention", problem, mask, launch);
  }

  void backward(const AttentionProblem& problem, const Mask& mask, const Launch& launch) const override {
    enqueue<Backward>("attention backward", problem, mask, launch);
  }

  std::vector<Fact> explain(const AttentionProblem& problem, const Mask& mask, Direction direction) const override {
    std::vector<Fact> facts = direction == Direction::forward ? call<Forward>(problem, mask, nullptr).facts()
                                                              : call<Backward>(problem, mask, nullptr).facts();
    const CudaDevice& device = cuda_device(problem.device.index);
    facts.push_back({"device", cat(device.name, ", compute capability ", device.major, ".", device.minor, ", ",
                                   device.num_sms, " multiprocessors")});
    return facts;
  }

 private:
  template <class Call>
  static Call call(const AttentionProblem& problem, const Mask& mask, void* workspace) {
    return Call(problem, *KnownMask::of(mask, problem), cuda_device(problem.device.index), workspace);
  }
  template <class Call>
  static void enqueue(const char* operation, const AttentionProblem& problem, const Mask& mask, const Launch& launch) {
    const DeviceScope scope(problem.device.index);
    const Call made = call<Call>(problem, mask, launch.workspace);
    check_workspace(operation, launch, made.bytes());
    made.enqueue(launch.workspace, static_cast<cudaStream_t>(launch.stream));
  }
  static void check_workspace(const char* operation, const Launch& launch, size_t bytes) {
    if (launch.workspace_bytes < bytes || (launch.workspace == nullptr && bytes > 0))
      fail_invalid(operation, ": workspace_bytes is ", launch.workspace_bytes, "; expected at least ", bytes,
                   ": ask anymask_workspace_bytes with the same arguments and pass that much device memory");
    if (reinterpret_cast<uintptr_t>(launch.workspace) % 256 != 0)
      fail_invalid(operation, ": workspace starts at an address that is no multiple of 256: align it");
  }
};

}  // namespace

const Backend& cuda_backend() {
  static const CudaBackend backend;
  return backend;
}

}  // namespace anymask
