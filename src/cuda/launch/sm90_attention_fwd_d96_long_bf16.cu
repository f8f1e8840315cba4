// sm90_attention_fwd for head dims up to 96 and long rows, bf16.
#include "cuda/launch/sm90_attention_fwd_instance.cuh"

namespace anymask {

template void launch_sm90_attention_fwd_shape<__nv_bfloat16, 2>(const sm90::Maps&, const AttentionParams&,
                                                                const Sm90ForwardConfig&, const CudaDevice&,
                                                                cudaStream_t);

}  // namespace anymask
