// Stands in for src/cuda/ptx/cluster.cuh: blocks run one after another, so none has company.
#pragma once

#include <cstdint>

#include "cuda/emulation/device_keywords.h"

namespace anymask::ptx {

inline uint32_t cluster_rank() { return 0; }
inline uint32_t cluster_blocks() { return 1; }
inline void cluster_store(int32_t*, uint32_t, int32_t) { throw emulation::Fault("cluster_store: a block is alone"); }
inline void cluster_sync() { throw emulation::Fault("cluster_sync: a block is alone"); }

}  // namespace anymask::ptx
