// The CUDA backend of a build without CUDA: linked instead of #ifdefs, it says what is missing and the way out.
#include <vector>

#include "backend/backend.h"
#include "backend/device_memory.h"
#include "core/error.h"

namespace anymask {
namespace {

constexpr const char* kReason =
    "this build has no CUDA part: compute on the CPU (CPU tensors, backend \"cpu\"), or use a build of anymask made "
    "with a CUDA toolkit";

class NoCuda final : public Backend {
 public:
  const char* name() const override { return "cuda"; }
  Device device() const override { return {DeviceKind::cuda, 0}; }
  Support available() const override { return {false, kReason}; }
  Support supports(const AttentionProblem&, Direction) const override { return available(); }
  size_t workspace_bytes(const AttentionProblem&, const Mask&, Direction) const override { refuse(); }
  void forward(const AttentionProblem&, const Mask&, const Launch&) const override { refuse(); }
  void backward(const AttentionProblem&, const Mask&, const Launch&) const override { refuse(); }
  std::vector<Fact> explain(const AttentionProblem&, const Mask&, Direction) const override { refuse(); }

 private:
  [[noreturn]] static void refuse() { fail_unsupported("cuda: ", kReason); }
};

}  // namespace

void* device_allocate(int32_t, size_t) { fail_unsupported("cuda: ", kReason); }
void device_free(void*) noexcept {}
void device_copy(void*, const void*, size_t) { fail_unsupported("cuda: ", kReason); }
void device_wait(int32_t) { fail_unsupported("cuda: ", kReason); }
DevicePeak device_peak(int32_t) { fail_unsupported("cuda: ", kReason); }

const Backend& cuda_backend() {
  static const NoCuda backend;
  return backend;
}

}  // namespace anymask
