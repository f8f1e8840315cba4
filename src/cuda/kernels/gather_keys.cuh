// Keys of a selection that is one for all rows, brought together, so that attention runs on a short axis.
//
// gather_chosen  a thread a plane, where rows choose for themselves: the row that its list is made by. Candidates of
//              all of its rows are selected among; whatever else some row may see is listed where it reaches the least
//              value selected: w keys of all rows lie above anything less.
// gather_list  blocks (stretch of keys, plane). Counts what is kept before its stretch, then lists what is kept in it:
//              every block reads what lies before it, from the second-level cache, instead of waiting for the others.
// gather_rows  a warp four places of the gathered axis and a head: their rows of K and V, or zeros: in a forward
//              up to the end of the list's last tile.
// gather_bias  a thread a place: the additive bias, which one row serves.
// gather_ends  a thread a row: the keys [begin, end) that the bands beside the selection leave it are the places
//              [lower_bound(begin), lower_bound(end)), by two binary searches: causal is a prefix of the list.
//              Likewise the row's candidates, where it chooses for itself.
//
// And back, for gradients: scatter_rows (a warp a key and head), scatter_bias (a thread an element) and scatter_sinks
// read what a key's places hold, zero where it was dropped; heads, lists and sequences that share a row of the tensor
// are summed in their order.
#pragma once

#include "cuda/gather_params.h"
#include "cuda/tile/backward_score.cuh"
#include "cuda/tile/block_sum.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/row_at.cuh"
#include "mask/kinds/bias_codes.h"

namespace anymask::gather {

inline constexpr int threads = 256, warps = threads / 32;
inline constexpr int list_threads = 1024, thread_keys = 8, list_keys = list_threads * thread_keys;  // at once
inline constexpr int row_places = 4;  // of a warp of gather_rows

// Blocks of planes.
__global__ void __launch_bounds__(threads) gather_chosen(const __grid_constant__ GatherParams p) {
  const int64_t index = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (index >= p.num_planes) return;
  const GatherPlane& plane = p.planes[index];
  TopkPlane chosen = p.selected[plane.source];
  const auto row = [&](int32_t line) {
    return chosen.among.limits != nullptr ? chosen.among.limits[int64_t{plane.first_row + line} * chosen.among.step]
                                          : TopkLimits{0, chosen.s_kv};
  };
  const TopkLimits first = row(0), last = row(plane.lines - 1);
  plane.limits[0] = {last.begin, first.end};
  plane.limits[1] = {first.begin, last.end};
  chosen.first_row = static_cast<int32_t>(index);
  chosen.num_rows = 1;
  chosen.rows = plane.cut;
  chosen.among = {plane.limits, nullptr, 0};
  chosen.within = {};
  p.chosen[index] = chosen;
}

// Bit i: key + i is a candidate and kept. Eight keys a thread, whole pieces of memory where they lie so.
__device__ inline uint32_t kept_bits(const TopkPlane& row, const GatherPlane& plane, TopkRow cut, int32_t key) {
  uint32_t bits = 0, candidates = ~0u;
  const TopkKeys& among = row.among;
  const TopkLimits* const limits = plane.limits != nullptr ? plane.limits + 1 : among.limits;
  if (limits != nullptr) candidates = static_cast<uint32_t>(bit_range(limits->begin - key, limits->end - key));
  if (among.words != nullptr && key < row.s_kv) {
    uint32_t given = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) given |= (among.words[key / 128 * 4 + c] >> (key % 128 / 4) & 3) << (2 * c);
    candidates &= given;
  }
  const auto look = [&](int i, int32_t code) {
    const bool kept = code <= plane.infinity && (code > cut.key || (code == cut.key && key + i <= cut.tie));
    bits |= static_cast<uint32_t>(kept) << i;
  };
  const auto* const values = static_cast<const uint8_t*>(row.values);
  const bool whole =
      row.stride_kv == 1 && key + thread_keys <= row.s_kv && reinterpret_cast<uintptr_t>(values) % 16 == 0;
  if (whole && plane.bytes == 2) {
    const uint4 eight = *reinterpret_cast<const uint4*>(values + int64_t{key} * 2);
    const uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      look(2 * i, BiasCodes::code(static_cast<uint16_t>(pairs[i])));
      look(2 * i + 1, BiasCodes::code(static_cast<uint16_t>(pairs[i] >> 16)));
    }
    return bits & candidates;
  }
  for (int i = 0; i < thread_keys && key + i < row.s_kv; ++i) {
    const int64_t at = (key + i) * row.stride_kv;
    look(i, plane.bytes == 2 ? BiasCodes::code(reinterpret_cast<const uint16_t*>(values)[at])
                             : BiasCodes::code(reinterpret_cast<const uint32_t*>(values)[at]));
  }
  return bits & candidates;
}

__device__ inline void copy_value(const GatherPlane& plane, int32_t place, const TopkPlane& row, int32_t key) {
  const int64_t at = key * row.stride_kv;
  if (plane.bytes == 2) {
    static_cast<uint16_t*>(plane.values)[place] = static_cast<const uint16_t*>(row.values)[at];
  } else {
    static_cast<uint32_t*>(plane.values)[place] = static_cast<const uint32_t*>(row.values)[at];
  }
}

__global__ void __launch_bounds__(list_threads) gather_list(const __grid_constant__ GatherParams p) {
  for (auto index = static_cast<int32_t>(blockIdx.y); index < p.num_planes; index += static_cast<int32_t>(gridDim.y)) {
    const TopkPlane& row = p.chosen[index];
    const GatherPlane& plane = p.planes[index];
    const TopkRow cut = *row.rows;
    const auto first = static_cast<int32_t>(threadIdx.x) * thread_keys;
    const int64_t begin = int64_t{blockIdx.x} * p.stretch, end = min(begin + p.stretch, int64_t{row.s_kv});
    if (begin >= row.s_kv && blockIdx.x > 0) continue;
    int32_t mine = 0, before = 0;
#pragma unroll 4
    for (int64_t at = 0; at < begin; at += list_keys)
      mine += __popc(kept_bits(row, plane, cut, static_cast<int32_t>(at) + first));
    exclusive_sum(mine, before);
    for (int64_t at = begin; at < end; at += list_keys) {
      const int32_t key = static_cast<int32_t>(at) + first;
      const uint32_t kept = key < row.s_kv ? kept_bits(row, plane, cut, key) : 0;
      int32_t total;
      int32_t place = before + exclusive_sum(__popc(kept), total);
      for (int i = 0; i < thread_keys && key + i < row.s_kv; ++i) {
        const bool listed = (kept >> i & 1) != 0 && place < plane.width;
        if (plane.slots != nullptr) plane.slots[key + i] = listed ? place : -1;
        if (!listed) continue;
        if (plane.values != nullptr) copy_value(plane, place, row, key + i);
        plane.keys[place++] = key + i;
      }
      before += total;
    }
    if (end == row.s_kv && threadIdx.x == 0) *plane.count = min(before, plane.width);
  }
}

__device__ inline const GatherPlane& plane_of(const GatherParams& p, int32_t sequence, int32_t head_q) {
  return p.planes[p.plane_of[int64_t{sequence} * p.plane_heads + (p.plane_heads == 1 ? 0 : head_q)]];
}

// By a warp; null: zeros.
__device__ inline void copy_row(uint16_t* to, const uint16_t* from, int32_t dim, bool aligned) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (aligned) {
    for (int i = lane; i < dim / 8; i += 32)
      reinterpret_cast<uint4*>(to)[i] =
          from != nullptr ? reinterpret_cast<const uint4*>(from)[i] : make_uint4(0, 0, 0, 0);
  } else {
    for (int i = lane; i < dim; i += 32) to[i] = from != nullptr ? from[i] : uint16_t{0};
  }
}

// Blocks (places, head of the gathered, sequence). Rows of K and V beside each other, of several places at once.
__global__ void __launch_bounds__(threads) gather_rows(const __grid_constant__ GatherParams p) {
  const int32_t first =
      (static_cast<int32_t>(blockIdx.x) * warps + static_cast<int32_t>(threadIdx.x) / 32) * row_places;
  const auto head = static_cast<int32_t>(blockIdx.y), lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t head_kv = head / (p.heads / p.h_kv), chunks_k = p.d_qk / 8, chunks = chunks_k + p.d_v / 8;
  for (auto s = static_cast<int32_t>(blockIdx.z); s < p.num_sequences; s += static_cast<int32_t>(gridDim.z)) {
    const GatherSequence& sequence = p.sequences[s];
    const GatherSource& source = p.sources[sequence.source];
    const GatherPlane& plane = plane_of(p, s, head * (p.h_q / p.heads));
    // Tiles beyond the list's last one are visited by nobody; a backward looks at the norms of all rows.
    const int32_t count = *plane.count, tiled = (count + plan_tile_n - 1) / plan_tile_n * plan_tile_n;
    const int32_t end = p.gathered_dv.data != nullptr ? sequence.width : min(tiled, sequence.width);
    if (first >= end) continue;
    int64_t from[row_places];
#pragma unroll
    for (int i = 0; i < row_places; ++i)
      from[i] = first + i < count ? source.kv_begin + plane.keys[first + i] : int64_t{-1};
    if (p.aligned == 0) {
      for (int i = 0; i < row_places && first + i < end; ++i) {
        const int64_t to = sequence.begin + first + i;
        copy_row(row_at(p.gathered_k, sequence.batch, to, head),
                 from[i] >= 0 ? row_at(p.k, source.batch, from[i], head_kv) : nullptr, p.d_qk, false);
        copy_row(row_at(p.gathered_v, sequence.batch, to, head),
                 from[i] >= 0 ? row_at(p.v, source.batch, from[i], head_kv) : nullptr, p.d_v, false);
      }
      continue;
    }
    for (int32_t chunk = lane; chunk < chunks; chunk += 32) {
      const bool is_k = chunk < chunks_k;
      const CudaTensor& source_rows = is_k ? p.k : p.v;
      const CudaTensor& gathered = is_k ? p.gathered_k : p.gathered_v;
      const int32_t at = is_k ? chunk : chunk - chunks_k;
      uint4 eight[row_places];
#pragma unroll
      for (int i = 0; i < row_places; ++i)
        eight[i] = from[i] >= 0
                       ? reinterpret_cast<const uint4*>(row_at(source_rows, source.batch, from[i], head_kv))[at]
                       : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int i = 0; i < row_places; ++i)
        if (first + i < end)
          reinterpret_cast<uint4*>(row_at(gathered, sequence.batch, sequence.begin + first + i, head))[at] = eight[i];
    }
  }
}

// Blocks (places, bias head of the gathered, sequence).
__global__ void __launch_bounds__(threads) gather_bias(const __grid_constant__ GatherParams p) {
  const auto place = static_cast<int32_t>(blockIdx.x) * threads + static_cast<int32_t>(threadIdx.x);
  const auto head = static_cast<int32_t>(blockIdx.y), head_q = head * (p.h_q / p.bias_heads);
  for (auto s = static_cast<int32_t>(blockIdx.z); s < p.num_sequences; s += static_cast<int32_t>(gridDim.z)) {
    if (place >= p.sequences[s].width) continue;
    const GatherPlane& plane = plane_of(p, s, head_q);
    const bool listed = place < *plane.count;
    const int64_t from = p.sequences[s].source * p.bias.stride_b + head_q / p.bias.group * p.bias.stride_h +
                         (listed ? plane.keys[place] : 0) * p.bias.stride_kv;
    const int64_t to = s * p.gathered_bias.stride_b + head * p.gathered_bias.stride_h + place;
    if (p.bias.dtype == DType::f32) {
      static_cast<uint32_t*>(p.gathered_bias.data)[to] = listed ? static_cast<const uint32_t*>(p.bias.data)[from] : 0;
    } else {
      static_cast<uint16_t*>(p.gathered_bias.data)[to] =
          listed ? static_cast<const uint16_t*>(p.bias.data)[from] : uint16_t{0};
    }
  }
}

// How many of the listed keys are below `key`.
__device__ inline int32_t lower_bound(const GatherPlane& plane, int32_t count, int32_t key) {
  int32_t low = 0;
  for (int32_t high = key <= 0 ? 0 : count; low < high;) {
    const int32_t middle = (low + high) / 2;
    if (plane.keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Blocks (rows, plane).
__global__ void __launch_bounds__(threads) gather_ends(const __grid_constant__ GatherParams p) {
  for (auto index = static_cast<int32_t>(blockIdx.y); index < p.num_planes; index += static_cast<int32_t>(gridDim.y)) {
    const GatherPlane& plane = p.planes[index];
    const TopkPlane& selected = p.selected[plane.source];
    const int32_t count = *plane.count;
    for (int64_t q = int64_t{blockIdx.x} * threads + threadIdx.x; q < plane.lines; q += int64_t{gridDim.x} * threads) {
      const auto search = [&](const TopkKeys& band, int64_t* begins, int64_t* ends) {
        if (begins == nullptr) return;
        const bool all = band.limits == nullptr;
        const TopkLimits limits = all ? TopkLimits{0, INT32_MAX} : band.limits[(plane.first_row + q) * band.step];
        begins[q] = lower_bound(plane, count, limits.begin);
        ends[q] = all ? count : lower_bound(plane, count, limits.end);
      };
      search(selected.within, plane.begins, plane.ends);
      search(selected.among, plane.among_begins, plane.among_ends);
    }
  }
}

// Every place of a key of a source, in their order: each(gathered sequence, head, place), of the `shared` heads from
// `first` on.
template <class Each>
__device__ inline void each_place(const GatherParams& p, const GatherSource& source, int32_t key, int32_t first,
                                  int32_t shared, int32_t heads, Each&& each) {
  for (int32_t s = source.first; s < source.first + source.count; ++s) {
    for (int32_t head = first; head < first + shared; ++head) {
      const int32_t place = plane_of(p, s, head * (p.h_q / heads)).slots[key];
      if (place >= 0) each(s, head, place);
    }
  }
}

// The same by a warp, whose lanes look for a place each.
template <class Each>
__device__ inline void each_place_of_warp(const GatherParams& p, const GatherSource& source, int32_t key, int32_t first,
                                          int32_t shared, int32_t heads, Each&& each) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, all = source.count * shared;
  for (int32_t base = 0; base < all; base += 32) {
    int32_t place = -1;
    if (base + lane < all) {
      const int32_t head = first + (base + lane) % shared;
      place = plane_of(p, source.first + (base + lane) / shared, head * (p.h_q / heads)).slots[key];
    }
    for (uint32_t left = __ballot_sync(~0u, place >= 0); left != 0; left &= left - 1) {
      const int32_t at = __popc((left & (0u - left)) - 1);
      each(source.first + (base + at) / shared, first + (base + at) % shared, __shfl_sync(~0u, place, at));
    }
  }
}

// Blocks (keys, kv head, source). A warp a key: rows of dK and dV beside each other, eight elements a lane.
__global__ void __launch_bounds__(threads) scatter_rows(const __grid_constant__ GatherParams p) {
  const auto head = static_cast<int32_t>(blockIdx.y), lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t shared = p.heads / p.h_kv, chunks_k = (p.d_qk + 7) / 8, chunks = chunks_k + (p.d_v + 7) / 8;
  for (auto s = static_cast<int32_t>(blockIdx.z); s < p.num_sources; s += static_cast<int32_t>(gridDim.z)) {
    const int64_t step = int64_t{gridDim.x} * warps;
    const GatherSource& source = p.sources[s];
    for (int64_t key = int64_t{blockIdx.x} * warps + threadIdx.x / 32; key < source.s_kv; key += step) {
      for (int32_t base = 0; base < chunks; base += 32) {
        const int32_t chunk = base + lane;
        const bool is_k = chunk < chunks_k;
        const int32_t at = 8 * (is_k ? chunk : chunk - chunks_k), dim = chunk >= chunks ? 0 : is_k ? p.d_qk : p.d_v;
        float sums[8] = {};
        each_place_of_warp(
            p, source, static_cast<int32_t>(key), head * shared, shared, p.heads,
            [&](int32_t index, int32_t from, int32_t place) {
              if (dim == 0) return;
              const GatherSequence& sequence = p.sequences[index];
              // Gathered rows are padded to whole chunks.
              const uint4 eight = *reinterpret_cast<const uint4*>(
                  row_at(is_k ? p.gathered_dk : p.gathered_dv, sequence.batch, sequence.begin + place, from) + at);
              const uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
              for (int i = 0; i < 8; ++i)
                sums[i] += element_of(static_cast<uint16_t>(pairs[i / 2] >> (16 * (i % 2))), p.dtype);
            });
        if (dim == 0) continue;
        uint16_t* const out = row_at(is_k ? p.dk : p.dv, source.batch, source.kv_begin + key, head) + at;
        if (p.aligned != 0) {
          uint32_t pairs[4];
#pragma unroll
          for (int i = 0; i < 4; ++i)
            pairs[i] = uint32_t{element_bits(sums[2 * i + 1], p.dtype)} << 16 | element_bits(sums[2 * i], p.dtype);
          *reinterpret_cast<uint4*>(out) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i)
            if (at + i < dim) store_element(out, p.dtype, i, sums[i]);
        }
      }
    }
  }
}

// Blocks (keys, head of the bias, batch entry of the bias).
__global__ void __launch_bounds__(threads) scatter_bias(const __grid_constant__ GatherParams p) {
  const auto head = static_cast<int32_t>(blockIdx.y);
  const int64_t key = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (key >= p.dbias_shape[3]) return;
  const auto shared = static_cast<int32_t>(p.bias_heads / p.dbias_shape[1]);
  for (int64_t b = blockIdx.z; b < p.dbias_shape[0]; b += gridDim.z) {
    float sum = 0;
    const auto add = [&](int32_t index) {
      const GatherSource& source = p.sources[index];
      if (key >= source.s_kv) return;
      each_place(p, source, static_cast<int32_t>(key), head * shared, shared, p.bias_heads,
                 [&](int32_t s, int32_t from, int32_t place) {
                   const CudaBias& bias = p.gathered_dbias;
                   sum += static_cast<const float*>(bias.data)[s * bias.stride_b + from * bias.stride_h + place];
                 });
    };
    if (p.dbias_shape[0] > 1) {
      add(static_cast<int32_t>(b));
    } else {
      for (int32_t s = 0; s < p.num_sources; ++s) add(s);
    }
    store_element(p.dbias.data, p.dbias.dtype, b * p.dbias.stride_b + head * p.dbias.stride_h + key * p.dbias.stride_kv,
                  sum);
  }
}

// Blocks of heads: of sinks, whose gradients each call has summed over its own rows.
__global__ void __launch_bounds__(threads) scatter_sinks(const __grid_constant__ GatherParams p) {
  const int64_t head = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (head >= p.h_q) return;
  float sum = 0;
  for (int32_t call = 0; call < p.num_calls; ++call) sum += p.call_dsinks[int64_t{call} * p.h_q + head];
  store_element(p.dsinks.data, p.dsinks.dtype, head * p.dsinks.stride_h, sum);
}

}  // namespace anymask::gather
