// The functions of driver and runtime that launchers call, for memory of the host and kernels that ended when their
// launch returns. Tensor maps are checked as the driver checks them.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string_view>

#include "cuda/emulation/emulator.h"
#include "cuda/emulation/tensor_map.h"
#include "cuda/launch/device.h"
#include "cuda/launch/plan_build.h"

namespace {

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  bool valid = (type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16) && rank == 5 &&
               reinterpret_cast<uintptr_t>(address) % 16 == 0 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
               swizzle == CU_TENSOR_MAP_SWIZZLE_128B && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && box[0] == 64;
  anymask::emulation::TensorMap tensor{};
  tensor.address = reinterpret_cast<uint64_t>(address);
  for (uint32_t i = 0; i < 5; ++i) {
    tensor.size[i] = sizes[i];
    tensor.stride[i] = i == 0 ? 2 : strides[i - 1];
    tensor.box[i] = box[i];
    valid &= sizes[i] >= 1 && sizes[i] <= uint64_t{1} << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
    valid &= i == 0 || (tensor.stride[i] % 16 == 0 && tensor.stride[i] < uint64_t{1} << 40);
    valid &= i < 3 || box[i] == 1;  // all that the emulated copy does
  }
  if (!valid) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &tensor, sizeof tensor);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                        unsigned long long, cudaDriverEntryPointQueryResult* found) {
  if (std::string_view(symbol) != "cuTensorMapEncodeTiled") return cudaErrorInvalidValue;
  *function = reinterpret_cast<void*>(&encode_tiled);
  *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
extern "C" cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
extern "C" cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" const char* cudaGetErrorString(cudaError_t) { return "no error"; }

namespace anymask {

void check_cuda(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) throw emulation::Fault(doing);
}

void upload_plan(std::vector<std::byte> bytes, void* to, cudaStream_t) { std::memcpy(to, bytes.data(), bytes.size()); }

}  // namespace anymask
