// sm80_attention_bwd for head dims up to 96 in bfloat16.
#include "cuda/launch/sm80_attention_bwd_instance.cuh"

namespace anymask {

template void launch_sm80_bwd_dkdv<__nv_bfloat16, 96>(const Sm80BwdPass& pass);
template void launch_sm80_bwd_dq<__nv_bfloat16, 96>(const Sm80BwdPass& pass);

}  // namespace anymask
