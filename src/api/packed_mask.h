// Packed sequences whose offsets lie on a device: one long sequence of documents.
#pragma once

#include "core/tensor.h"
#include "mask/mask.h"

namespace anymask {

// What `mask` keeps inside each of the sequences that the offsets cut, as a mask over all rows and keys at once.
// Offsets are checked by shape and type; what they hold is not known. `own_kv`: keys have offsets of their own, in
// other memory. Masks that ask where a row or key lies in its sequence are refused: between the sequences only
// distances are the same, and with own_kv not even those.
Mask packed_mask(const char* operation, const Mask& mask, const TensorView& cu_q, const TensorView& cu_kv, bool own_kv);

}  // namespace anymask
