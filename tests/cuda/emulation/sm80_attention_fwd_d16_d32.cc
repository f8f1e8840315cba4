// sm80_attention_fwd for head dims up to 16 and 32.
#include "cuda/emulation/sm80_attention_fwd_instance.h"

namespace anymask {

template void launch_sm80_attention_fwd_shape<0>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);
template void launch_sm80_attention_fwd_shape<1>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);

}  // namespace anymask
