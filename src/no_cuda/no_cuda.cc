// The CUDA backend of a build without CUDA: linked instead of #ifdefs, it says what is missing and the way out.
#include <vector>

#include "backend/backend.h"
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
  Support supports(const AttentionProblem&, Direction) const override { return {false, kReason}; }
  size_t workspace_bytes(const AttentionProblem&, Direction) const override { fail_unsupported("cuda: ", kReason); }
  void forward(const AttentionProblem&, const Mask&) const override { fail_unsupported("cuda: ", kReason); }
  void backward(const AttentionProblem&, const Mask&) const override { fail_unsupported("cuda: ", kReason); }
  std::vector<Fact> explain(const AttentionProblem&, const Mask&, Direction) const override {
    fail_unsupported("cuda: ", kReason);
  }
};

}  // namespace

const Backend& cuda_backend() {
  static const NoCuda backend;
  return backend;
}

}  // namespace anymask
