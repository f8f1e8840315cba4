// The same for kernels with shared variables of their own.
#pragma once

#include "cuda/emulation/backward_keywords.h"
#include "cuda/emulation/block_keywords.h"
