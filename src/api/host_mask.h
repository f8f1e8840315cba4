// Masks whose arrays lie on a device, for what looks at them on the host: pictures, counts, plans as data, bytes.
#pragma once

#include "mask/mask.h"

namespace anymask {

// The mask itself where its arrays are on the host. Else the same over copies of them, for which this waits for all
// work of their devices.
Mask on_host(const Mask& mask);

}  // namespace anymask
