#include "cuda/launch/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "core/error.h"

namespace anymask {
namespace {

using Encode = PFN_cuTensorMapEncodeTiled_v12000;

// The driver is found at run time: the library loads where there is none.
Encode encoder() {
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found) !=
        cudaSuccess)
      function = nullptr;
    return reinterpret_cast<Encode>(function);
  }();
  return encode;
}

}  // namespace

CUtensorMap make_tensor_map(const CudaTensor& tensor, DType dtype, const MapShape& shape, int heads, int tokens) {
  if (encoder() == nullptr)
    fail_unsupported("attention: this driver makes no tensor maps; expected one for CUDA 12 or newer: update it");
  using Size = cuuint64_t;
  constexpr Size wrap = Size{1} << 34;  // bytes: 2^30 of them are 2^64
  constexpr Size many = (Size{1} << 31) - (Size{1} << 16);
  const auto element = static_cast<Size>(size_of(dtype));
  // An axis of one entry is never stepped along: its stride may be anything, and is given as what the driver accepts.
  const auto bytes = [&](int64_t stride, int64_t size) {
    return size <= 1 && !shape.packed ? Size{16} : static_cast<Size>(stride) * element;
  };
  const Size token = static_cast<Size>(tensor.stride_s) * element;
  const Size head = shape.heads <= 1 ? Size{16} : static_cast<Size>(tensor.stride_h) * element;
  const auto dim = static_cast<Size>(shape.dim), num_heads = static_cast<Size>(shape.heads);
  const Size sizes_batch[5] = {dim, num_heads, static_cast<Size>(shape.tokens), static_cast<Size>(shape.batch), 1};
  const Size strides_batch[4] = {head, bytes(tensor.stride_s, shape.tokens), bytes(tensor.stride_b, shape.batch), 16};
  const Size sizes_packed[5] = {dim, num_heads, Size{1} << 30, many, many};
  const Size strides_packed[4] = {head, token, token, wrap - token};
  const cuuint32_t box[5] = {64, static_cast<cuuint32_t>(heads), static_cast<cuuint32_t>(tokens), 1, 1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encoder()(&map, dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 5,
                tensor.data, shape.packed ? sizes_packed : sizes_batch, shape.packed ? strides_packed : strides_batch,
                box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail_invalid("attention: the driver refuses a tensor map (error ", static_cast<int>(result), ") of strides ",
                 tensor.stride_b, ", ", tensor.stride_s, ", ", tensor.stride_h,
                 " elements; expected pointer and strides in multiples of 16 bytes: make the tensor contiguous");
  return map;
}

}  // namespace anymask
