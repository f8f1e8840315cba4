// The C functions about the library and the machine it runs on.
#include <string>

#include "api/json.h"
#include "api/status.h"
#include "api/text.h"
#include "api/view.h"
#include "backend/device_memory.h"
#include "core/error.h"
#include "cpu/peak.h"
#include "cpu/targets.h"
#include "dispatch/dispatch.h"

using namespace anymask;

#define ANYMASK_STRING(x) #x
#define ANYMASK_VERSION_TEXT(major, minor, patch) \
  ANYMASK_STRING(major) "." ANYMASK_STRING(minor) "." ANYMASK_STRING(patch)

const char* anymask_version(void) {
  return ANYMASK_VERSION_TEXT(ANYMASK_VERSION_MAJOR, ANYMASK_VERSION_MINOR, ANYMASK_VERSION_PATCH);
}

anymask_status anymask_backends(char** json) {
  return guarded([&] {
    char*& out = required("backends", "json", json);
    Json j;
    j.open('{');
    for (const Backend* backend : all_backends()) {
      const Support support = backend->available();
      j.key(backend->name()).open('{').field("available", support.yes);
      if (support.yes) {
        for (const Fact& fact : backend->machine()) j.field(fact.name, fact.value);
      } else {
        j.field("reason", support.reason);
      }
      j.close('}');
    }
    j.close('}');
    out = give_text(j.text());
  });
}

anymask_status anymask_cpu_peak(const char* dtype, int32_t num_threads, double* out) {
  return guarded([&] {
    double& flops = required("cpu peak", "out", out);
    const std::string type = &required("cpu peak", "dtype", dtype);
    if (num_threads < 0)
      fail_invalid("cpu peak: num_threads is ", num_threads, "; expected 0 (all this process may use) or more");
    if (type == "float32") {
      flops = cpu_peak(DType::f32, num_threads);
    } else if (type == "bfloat16") {
      flops = cpu_peak(DType::bf16, num_threads);
    } else {
      fail_invalid("cpu peak: dtype is \"", type, "\"; expected \"float32\" or \"bfloat16\"");
    }
  });
}

anymask_status anymask_cpu_products(int32_t head_dim, int32_t num_threads, double* out) {
  return guarded([&] {
    double& flops = required("cpu products", "out", out);
    if (num_threads < 0)
      fail_invalid("cpu products: num_threads is ", num_threads, "; expected 0 (all this process may use) or more");
    if (head_dim < 8 || head_dim > 256 || head_dim % 8 != 0)
      fail_invalid("cpu products: head_dim is ", head_dim,
                   "; expected a multiple of 8 up to 256: name one that the forward takes");
    flops = cpu_products(head_dim, num_threads);
  });
}

anymask_status anymask_cuda_malloc(int32_t device, size_t bytes, void** out) {
  return guarded([&] {
    void*& memory = required("cuda malloc", "out", out);
    memory = nullptr;
    memory = device_allocate(device, bytes);
  });
}

void anymask_cuda_free(void* memory) {
  if (memory != nullptr) device_free(memory);
}

anymask_status anymask_cuda_copy(void* to, const void* from, size_t bytes) {
  return guarded([&] {
    if (bytes == 0) return;
    required("cuda copy", "to", static_cast<char*>(to));
    required("cuda copy", "from", static_cast<const char*>(from));
    device_copy(to, from, bytes);
  });
}

anymask_status anymask_cuda_synchronize(int32_t device) {
  return guarded([&] { device_wait(device); });
}

anymask_status anymask_cuda_peak(int32_t device, double* flops, double* copy_bytes) {
  return guarded([&] {
    const DevicePeak peak = device_peak(device);
    if (flops != nullptr) *flops = peak.flops;
    if (copy_bytes != nullptr) *copy_bytes = peak.copy_bytes;
  });
}

anymask_status anymask_cpu_targets(char** out) {
  return guarded([&] {
    char*& result = required("cpu targets", "out", out);
    std::string text;
    for (const std::string& target : cpu_targets()) text += (text.empty() ? "" : " ") + target;
    result = give_text(text);
  });
}

anymask_status anymask_cpu_force_target(const char* name) {
  return guarded([&] { force_cpu_target(&required("cpu target", "name", name)); });
}
