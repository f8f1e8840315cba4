// sm80_attention_fwd for head dims up to 96.
#include "cuda/launch/sm80_attention_fwd_instance.cuh"

namespace anymask {

template void launch_sm80_attention_fwd_shape<3>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);

}  // namespace anymask
