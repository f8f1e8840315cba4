// sm90_attention_fwd and combine in bf16.
#include "cuda/emulation/sm90_attention_fwd_instance.h"

namespace anymask {

#define ANYMASK_INSTANCE(index)                                        \
  template void launch_sm90_attention_fwd_shape<__nv_bfloat16, index>( \
      const sm90::Maps&, const AttentionParams&, const Sm90ForwardConfig&, const CudaDevice&, cudaStream_t);
ANYMASK_INSTANCE(0)
ANYMASK_INSTANCE(1)
ANYMASK_INSTANCE(2)
ANYMASK_INSTANCE(3)
ANYMASK_INSTANCE(4)
ANYMASK_INSTANCE(5)
ANYMASK_INSTANCE(6)
#undef ANYMASK_INSTANCE

template void emulation::run_combine<__nv_bfloat16>(const AttentionParams&);

}  // namespace anymask
