// sm80_attention_fwd for head dims up to 192 and 256.
#include "cuda/emulation/sm80_attention_fwd_instance.h"

namespace anymask {

template void launch_sm80_attention_fwd_shape<6>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);
template void launch_sm80_attention_fwd_shape<7>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);

}  // namespace anymask
