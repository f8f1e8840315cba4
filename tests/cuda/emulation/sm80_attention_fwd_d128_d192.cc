// sm80_attention_fwd for head dims up to 128, and up to 192 with values up to
// 128.
#include "cuda/emulation/sm80_attention_fwd_instance.h"

namespace anymask {

template void launch_sm80_attention_fwd_shape<4>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);
template void launch_sm80_attention_fwd_shape<5>(const AttentionParams&, const Sm80ForwardConfig&, const CudaDevice&,
                                                 cudaStream_t);

}  // namespace anymask
