// The backward of short sequences in one launch, head dims up to 128.
#include "cuda/launch/sm80_attention_bwd_small_instance.cuh"

namespace anymask {

template void launch_sm80_bwd_small<__nv_bfloat16, 128>(const Sm80BwdSmall& call);
template void launch_sm80_bwd_small<__half, 128>(const Sm80BwdSmall& call);

}  // namespace anymask
