// sm80_attention_fwd for head dims up to 192.
#include "cuda/launch/sm80_attention_fwd_instance.cuh"

namespace anymask {

template void launch_sm80_attention_fwd_shape<6>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);

}  // namespace anymask
