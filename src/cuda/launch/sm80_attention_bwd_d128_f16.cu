// sm80_attention_bwd for head dims up to 128 in float16.
#include "cuda/launch/sm80_attention_bwd_instance.cuh"

namespace anymask {

template void launch_sm80_bwd_dkdv<__half, 128>(const Sm80BwdPass& pass);
template void launch_sm80_bwd_dq<__half, 128>(const Sm80BwdPass& pass);

}  // namespace anymask
