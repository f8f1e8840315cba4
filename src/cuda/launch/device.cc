#include "cuda/launch/device.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace anymask {
namespace {

struct Devices {
  std::vector<CudaDevice> list;
  Support support;
};

using Capability = std::pair<int32_t, int32_t>;

// ANYMASK_CUDA_CAPABILITY=8.0: kernels are chosen as for a device of that compute capability, where the device has a
// later one. So that the kernels of older devices can be compared and tested on newer ones.
Capability capability_limit() {
  const char* said = std::getenv("ANYMASK_CUDA_CAPABILITY");
  if (said == nullptr) return {INT32_MAX, 0};
  const std::string_view text = said;
  Capability limit;
  const auto [dot, major_status] = std::from_chars(text.data(), text.data() + text.size(), limit.first);
  const bool dotted = major_status == std::errc() && dot != text.data() + text.size() && *dot == '.';
  const auto [end, minor_status] = std::from_chars(dotted ? dot + 1 : dot, text.data() + text.size(), limit.second);
  if (!dotted || minor_status != std::errc() || end != text.data() + text.size() || limit < Capability{8, 0})
    fail_invalid("ANYMASK_CUDA_CAPABILITY is \"", text,
                 "\"; expected a compute capability from 8.0 on, such as 8.0: correct it or unset it");
  return limit;
}

CudaDevice describe(int32_t index) {
  CudaDevice device;
  device.index = index;
  const auto attribute = [index](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, index), "reading a device's properties");
    return value;
  };
  std::tie(device.major, device.minor) =
      std::min(Capability{attribute(cudaDevAttrComputeCapabilityMajor), attribute(cudaDevAttrComputeCapabilityMinor)},
               capability_limit());
  device.num_sms = attribute(cudaDevAttrMultiProcessorCount);
  device.shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "reading a device's name");
  device.name = properties.name;
  return device;
}

Devices find() {
  Devices found;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    // The runtime says so too where no driver is installed at all.
    found.support = {false,
                     "no NVIDIA driver was found that runs CUDA 13: install or update it (580 or newer), or compute on "
                     "the CPU (CPU tensors, backend \"cpu\")"};
  } else if (status != cudaSuccess || count == 0) {
    found.support = {false, cat("no CUDA device: the runtime says \"",
                                status == cudaSuccess ? "0 devices" : cudaGetErrorString(status),
                                "\": make one visible (CUDA_VISIBLE_DEVICES), or compute on the CPU")};
  } else {
    try {
      for (int i = 0; i < count; ++i) found.list.push_back(describe(i));
    } catch (const Error& error) {
      found = {{}, {false, error.what()}};
    }
  }
  return found;
}

const Devices& devices() {
  static const Devices found = find();
  return found;
}

}  // namespace

Support cuda_available() { return devices().support; }

int32_t cuda_device_count() { return static_cast<int32_t>(devices().list.size()); }

const CudaDevice& cuda_device(int32_t index) {
  const Devices& all = devices();
  if (!all.support.yes) fail_unsupported("cuda: ", all.support.reason);
  if (index < 0 || static_cast<size_t>(index) >= all.list.size())
    fail_invalid("cuda: device ", index, " was named; expected 0 to ", all.list.size() - 1, ": choose one of these");
  return all.list[static_cast<size_t>(index)];
}

void check_cuda(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation)
    throw Error(Status::out_of_memory,
                cat("cuda: ", doing, ": out of device memory: free some, or use smaller inputs"));
  throw Error(Status::internal,
              cat("cuda: ", doing, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"));
}

DeviceScope::DeviceScope(int32_t index) : now_(index) {
  check_cuda(cudaGetDevice(&before_), "asking for the current device");
  if (before_ != now_) check_cuda(cudaSetDevice(now_), "choosing the tensors' device");
}
DeviceScope::~DeviceScope() {
  if (before_ != now_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace anymask
