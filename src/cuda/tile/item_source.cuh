// Where a kernel's items come from: the list of a plan, or a band, which numbers them by arithmetic. And how blocks
// share them out.
#pragma once

#include <cstdint>

#include "cuda/attention_params.h"
#include "cuda/ptx/ld_st.cuh"
#include "cuda/tile/opaque.cuh"

namespace anymask {

// An array in a band's block.
template <class T>
__device__ __forceinline__ const T* band_array(const CudaBand& band, uint32_t offset) {
  return reinterpret_cast<const T*>((band.data != nullptr ? band.data : band.bytes) + offset);
}
// One element of it. Two loads in the code, so that the one from the parameters is a load of a constant: an address
// that may be either is read as memory, which takes longer.
template <class T>
__device__ __forceinline__ T band_load(const CudaBand& band, uint32_t offset, int32_t index) {
  const uint32_t at = offset + static_cast<uint32_t>(index) * uint32_t{sizeof(T)};
  if (band.data != nullptr) return *reinterpret_cast<const T*>(band.data + at);
  return *reinterpret_cast<const T*>(band.bytes + at);
}

__device__ __forceinline__ CudaSequence sequence_of(const AttentionParams& p, int32_t i) {
  if (p.sequences != nullptr) return p.sequences[i];
  if (p.band.sequences != 0) return band_load<CudaSequence>(p.band, p.band.sequences, i);
  return {i, 0, 0, static_cast<int32_t>(p.tokens_q), static_cast<int32_t>(p.tokens_kv)};
}

// Items, for kernels that are compiled apart for bands and for plans, and for those that are not.
template <bool bands>
__device__ __forceinline__ int32_t count_items(const AttentionParams& p) {
  return bands ? p.band.num_items : *p.plan.num_items;
}
__device__ __forceinline__ int32_t count_items(const AttentionParams& p) {
  return p.band.present ? count_items<true>(p) : count_items<false>(p);
}

// Item `index` of a band, without runs: a piece is its share of the tiles that the row's bounds say (band_rows.cuh).
__device__ __forceinline__ CudaItem band_item(const CudaBand& band, int32_t index) {
  CudaItem item{};
  const auto piece = [&item, index](int32_t place, int32_t num_splits) {
    item.num_splits = num_splits;
    if (num_splits == 1) return place;
    const int32_t whole = place / num_splits;
    item.split = place - whole * num_splits;
    item.partial = index - item.split;
    return whole;
  };
  // Divisors are opaque: their reciprocals would be kept for the whole kernel.
  const int32_t m_blocks = opaque(band.m_blocks);
  if (m_blocks > 0) {
    const int32_t whole = piece(index, opaque(band.num_splits));
    const int32_t per_section = opaque(band.pairs_per_section), heads = opaque(band.heads);
    const int32_t first = whole / (per_section * m_blocks) * per_section;
    const int32_t pairs = min(per_section, band.pairs - first);
    const int32_t place = whole - first * m_blocks, rank = place / pairs, pair = first + place - rank * pairs;
    item.sequence = pair / heads;
    item.head = pair - item.sequence * heads;
    item.m_block = band.order != 0           ? band_load<uint16_t>(band, band.order, rank)
                   : band.first_to_last != 0 ? rank
                                             : m_blocks - 1 - rank;
    return item;
  }
  int32_t low = 0;
  for (int32_t high = band.num_sections; high - low > 1;) {
    const int32_t middle = (low + high) / 2;
    if (band_load<BandSection>(band, band.sections, middle).first_item <= index) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const auto section = band_load<BandSection>(band, band.sections, low);
  const int32_t place = piece(index - section.first_item, section.num_splits), rank = place / section.heads;
  item.sequence = section.sequence;
  item.head = section.first_head + place - rank * section.heads;
  item.m_block = band.first_to_last != 0 ? rank : section.m_blocks - 1 - rank;
  return item;
}

template <bool bands>
__device__ __forceinline__ CudaItem item_of(const AttentionParams& p, int32_t index) {
  if constexpr (bands) {
    return band_item(p.band, index);
  } else {
    return p.plan.items[index];
  }
}
__device__ __forceinline__ CudaItem item_of(const AttentionParams& p, int32_t index) {
  return p.band.present ? item_of<true>(p, index) : item_of<false>(p, index);
}

// Block i begins with item i. The others are taken one by one, in order, by whoever is free: a count in memory that may
// hold anything before the launch, so that no launch has to clear it. Block 0 sets it to zero and then publishes the
// launch's number, 64 bits that memory does not hold by chance; others wait for that before their first ticket, and
// whoever draws the last one withdraws it, so that a replay of the same launch finds it unpublished. No tickets where
// every item has a block.
//
// One thread a block draws, num_items in all: one for each item taken, the last of each block in vain.
__device__ __forceinline__ void open_tickets(const AttentionParams& p, int32_t num_items) {
  if (blockIdx.x != 0 || static_cast<int32_t>(gridDim.x) >= num_items) return;
  p.tickets->taken = 0;
  ptx::store_release(&p.tickets->launch, p.launch);
}
// The next item, or one at or beyond num_items: none. `first` of this block.
__device__ __forceinline__ int32_t draw_ticket(const AttentionParams& p, int32_t num_items, bool first) {
  const auto blocks = static_cast<int32_t>(gridDim.x);
  if (blocks >= num_items) return num_items;
  while (first && ptx::load_acquire(&p.tickets->launch) != p.launch) {
  }
  const int32_t ticket = atomicAdd(&p.tickets->taken, 1);
  if (ticket == num_items - 1) p.tickets->launch = 0;
  return blocks + ticket;
}

}  // namespace anymask
