// What leaves read, made from arrays in device memory: what bind() makes of arrays on the host.
//
// plan_prepare  blocks (leaf, stretch): offsets, maps and intervals, some warps each; a tree by one block.
// plan_heaps    one block a leaf: the upper levels over bounds of intervals.
//
// Nobody looked at the contents before. They are brought back to what the host's checks would have passed (offsets
// start at 0, never fall and end at their length; a parent comes before its child, else the node is a root; intervals
// are clipped, and none where they end before they begin), so that whatever reads them stays inside its arrays, and the
// bounds on a plan's memory (plan/capacity.h) hold.
#pragma once

#include "cuda/plan/plan_data.h"
#include "cuda/ptx/grid_dependency.cuh"
#include "mask/kinds/interval_table.h"
#include "mask/kinds/tree.h"

namespace anymask::plan_build {

inline constexpr int prepare_threads = 1024;

template <class T>
__device__ T* made(const LeafArgs& leaf, int slot) {
  return static_cast<T*>(const_cast<void*>(leaf.data[slot]));
}

// join(values of the threads up to this one); `carry` begins as that of earlier calls and ends as that of all. Every
// thread of the block calls it.
template <class Join>
__device__ int64_t scan_block(int64_t value, int64_t& carry, Join&& join) {
  __shared__ int64_t sums[32];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  for (int step = 1; step < 32; step *= 2) {
    const int64_t other = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value = join(other, value);
  }
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  int64_t before = carry;
  for (int w = 0; w < static_cast<int>(blockDim.x / 32); ++w) {
    if (w == warp) value = join(before, value);
    before = join(before, sums[w]);
  }
  carry = before;
  __syncthreads();
  return value;
}

// Offsets 0 = out[0] <= out[1] <= ... <= out[last] = limit.
__device__ inline void make_offsets(const LeafSource& source, int64_t* out) {
  const int64_t count = source.extent[0];
  int64_t carry = 0;
  for (int64_t base = 0; base < count; base += blockDim.x) {
    const int64_t i = base + threadIdx.x;
    const int64_t value = i > 0 && i < count ? clamp_to(source.at(i), 0, source.limit) : 0;
    const int64_t offset = scan_block(value, carry, [](int64_t a, int64_t b) { return max_of(a, b); });
    if (i < count) out[i] = i + 1 == count ? source.limit : offset;
  }
}

// Running sums from `first` on, the last one brought to the limit.
__device__ inline void make_sums(const LeafSource& source, int64_t first, int64_t* out) {
  const int64_t count = source.extent[0];
  int64_t carry = first;
  if (threadIdx.x == 0) out[0] = count == 0 ? source.limit : first;
  for (int64_t base = 0; base < count; base += blockDim.x) {
    const int64_t i = base + threadIdx.x;
    const int64_t value = i < count ? clamp_to(source.at(i), 0, source.limit) : 0;
    const int64_t sum =
        scan_block(value, carry, [&source](int64_t a, int64_t b) { return min_of(a + b, source.limit); });
    if (i < count) out[i + 1] = i + 1 == count ? source.limit : sum;
  }
}

// A warp a word: 64 entries of a row of the map.
__device__ inline void make_map(const LeafSource& source, int64_t words, int64_t warp, int64_t warps, uint64_t* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t task = warp; task < source.extent[0] * words; task += warps) {
    const int64_t row = task / words, col = task % words * 64 + lane;
    const unsigned low = __ballot_sync(~0u, col < source.extent[1] && source.at(row, col) != 0);
    const unsigned high = __ballot_sync(~0u, col + 32 < source.extent[1] && source.at(row, col + 32) != 0);
    if (lane == 0) out[task] = uint64_t{high} << 32 | low;
  }
}

__device__ inline IntervalBounds join_lanes(IntervalBounds bounds) {
  for (int step = 16; step > 0; step /= 2) {
    bounds = IntervalTable::join(
        bounds, {__shfl_xor_sync(~0u, bounds.min_begin, step), __shfl_xor_sync(~0u, bounds.max_end, step),
                 __shfl_xor_sync(~0u, bounds.max_begin, step), __shfl_xor_sync(~0u, bounds.min_end, step)});
  }
  return bounds;
}

// A lane a line: clipped, sorted by insertion, joined where they meet, void ones last. A warp's 32 lines are a block of
// the bounds.
__device__ inline void make_intervals(const LeafSource* sources, const LeafArgs& leaf, int64_t warp, int64_t warps) {
  static_assert(IntervalTable::block == 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t n = leaf.ints[0], lines = leaf.ints[1], leaves = leaf.ints[2], limit = sources[0].limit;
  for (int64_t block = warp; block < leaves; block += warps) {
    const int64_t line = block * 32 + lane;
    int64_t* const begins = made<int64_t>(leaf, 0) + line * n;
    int64_t* const ends = made<int64_t>(leaf, 1) + line * n;
    if (line < lines) {
      int64_t used = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t begin = clamp_to(sources[0].at(line, i), 0, limit),
                      end = clamp_to(sources[1].at(line, i), 0, limit);
        if (begin >= end) continue;
        int64_t at = used++;
        for (; at > 0 && begins[at - 1] > begin; --at) begins[at] = begins[at - 1], ends[at] = ends[at - 1];
        begins[at] = begin, ends[at] = end;
      }
      int64_t kept = 0;
      for (int64_t i = 0; i < used; ++i) {
        if (kept > 0 && begins[i] <= ends[kept - 1]) {
          ends[kept - 1] = max_of(ends[kept - 1], ends[i]);
        } else {
          begins[kept] = begins[i], ends[kept] = ends[i];
          ++kept;
        }
      }
      for (int64_t i = kept; i < n; ++i) begins[i] = limit, ends[i] = 0;
    }
    for (int64_t i = 0; i < n; ++i) {
      IntervalBounds bounds = IntervalTable::nothing();
      if (line < lines) bounds = {begins[i], ends[i], begins[i], ends[i]};
      bounds = join_lanes(bounds);
      if (lane == 0) made<IntervalBounds>(leaf, 2)[(i * 2 + 1) * leaves + block] = bounds;
    }
  }
}

// The levels of a heap above its leaves, one after another.
template <class T, class Join>
__device__ void make_heap(T* heap, int64_t leaves, Join&& join) {
  for (int64_t level = leaves / 2; level > 0; level /= 2) {
    for (int64_t i = threadIdx.x; i < level; i += blockDim.x)
      heap[level + i] = join(heap[2 * (level + i)], heap[2 * (level + i) + 1]);
    __syncthreads();
  }
}

// Preorder numbers, chains and jumps of a tree from its parents, by one block: sums along ways up and over subtrees by
// doubling (after k rounds `up` is the 2^k-th ancestor), which takes the logarithm of the tree's depth in rounds.
class TreeMaker {
 public:
  __device__ TreeMaker(const LeafSource& source, const LeafArgs& leaf)
      : source_(source),
        n_(leaf.ints[1]),
        nodes_(made<TreeNode>(leaf, 0)),
        scratch_(n_ <= small_tree ? small_scratch() : reinterpret_cast<int32_t*>(nodes_ + n_)) {}

  __device__ void make() {
    parents_and_chains();
    // How many nodes stand on the way up, this one counted.
    sum_upwards([](int64_t) { return 1; }, depth());
    sizes_and_jumps();
    // Behind the parent's own number, what its earlier children take up.
    earlier_siblings();
    sum_upwards([this](int64_t i) { return earlier()[i] + (nodes_[i].parent >= 0 ? 1 : 0); }, next());
    each([this](int64_t i) {
      nodes_[i].enter = next()[i];
      nodes_[i].leave = next()[i] + size()[i];
    });
  }

 private:
  // Six numbers a node, behind the nodes; of a small tree on the chip: rounds are all latency.
  static_assert(Tree::scratch_bytes == 24);
  static constexpr int64_t small_tree = 1024;
  __device__ static int32_t* small_scratch() {
    __shared__ int32_t numbers[6 * small_tree];
    return numbers;
  }
  __device__ int32_t* up(int which) const { return scratch_ + which * n_; }
  __device__ int32_t* sum(int which) const { return scratch_ + (2 + which) * n_; }
  __device__ int32_t* depth() const { return scratch_ + 4 * n_; }
  __device__ int32_t* size() const { return scratch_ + 5 * n_; }
  __device__ int32_t* next() const { return scratch_ + 4 * n_; }  // the depth is done with
  __device__ int32_t* earlier() const { return scratch_ + 4 * n_; }

  template <class Of>
  __device__ void each(Of&& of) const {
    for (int64_t i = threadIdx.x; i < n_; i += blockDim.x) of(i);
    __syncthreads();
  }

  __device__ void parents_and_chains() {
    int64_t carry = 0;
    for (int64_t base = 0; base < n_; base += blockDim.x) {
      const int64_t i = base + threadIdx.x;
      int64_t parent = i < n_ ? source_.at(i) : -1;
      if (parent < -1 || parent >= i) parent = -1;
      const int64_t begins = parent == i - 1 ? 0 : i;  // a chain, here; node 0 begins the first
      const int64_t chain = scan_block(begins, carry, [](int64_t a, int64_t b) { return max_of(a, b); });
      if (i < n_) {
        nodes_[i].parent = static_cast<int32_t>(parent);
        nodes_[i].jump = -1;
        nodes_[i].chain = static_cast<int32_t>(chain);
      }
    }
    __syncthreads();
  }

  // out[i] = of(i) + of(parent) + ... up to the root.
  template <class Of>
  __device__ void sum_upwards(Of&& of, int32_t* out) {
    each([&](int64_t i) {
      up(0)[i] = nodes_[i].parent;
      sum(0)[i] = of(i);
    });
    for (int now = 0;; now ^= 1) {
      bool more = false;
      for (int64_t i = threadIdx.x; i < n_; i += blockDim.x) {
        const int32_t a = up(now)[i];
        sum(now ^ 1)[i] = sum(now)[i] + (a >= 0 ? sum(now)[a] : 0);
        up(now ^ 1)[i] = a >= 0 ? up(now)[a] : -1;
        more |= a >= 0;
      }
      if (__syncthreads_or(more ? 1 : 0) == 0) {
        each([&](int64_t i) { out[i] = sum(now)[i]; });
        return;
      }
    }
  }

  // A node's subtree: of nodes less than 2^k below it, then of those less than 2^(k + 1). A node of depth d jumps as
  // many levels up as the lowest bit of d says, so that any height is climbed to in the square of the logarithm.
  __device__ void sizes_and_jumps() {
    each([&](int64_t i) {
      up(0)[i] = nodes_[i].parent;
      size()[i] = 1;
    });
    int now = 0;
    for (int32_t levels = 1;; levels *= 2, now ^= 1) {
      bool more = false;
      for (int64_t i = threadIdx.x; i < n_; i += blockDim.x) {
        const int32_t a = up(now)[i];
        if ((depth()[i] & -depth()[i]) == levels) nodes_[i].jump = a;
        sum(0)[i] = size()[i];
        up(now ^ 1)[i] = a >= 0 ? up(now)[a] : -1;
        more |= a >= 0;
      }
      if (__syncthreads_or(more ? 1 : 0) == 0) return;
      each([&](int64_t i) {
        const int32_t a = up(now)[i];
        if (a >= 0) atomicAdd(&size()[a], sum(0)[i]);
      });
    }
  }

  // Nodes below earlier children of the same parent: of earlier stretches in `taken`, of this one by looking at each.
  __device__ void earlier_siblings() {
    __shared__ int32_t parents[prepare_threads], sizes[prepare_threads], roots;
    int32_t* const taken = sum(0);
    if (threadIdx.x == 0) roots = 0;
    each([&](int64_t i) { taken[i] = 0; });
    for (int64_t base = 0; base < n_; base += blockDim.x) {
      const int64_t i = base + threadIdx.x;
      const bool inside = i < n_;
      const int32_t parent = inside ? nodes_[i].parent : -2, mine = inside ? size()[i] : 0;
      parents[threadIdx.x] = parent;
      sizes[threadIdx.x] = mine;
      __syncthreads();
      int32_t* const of_parent = parent >= 0 ? &taken[parent] : &roots;
      int32_t before = *of_parent;
      for (int32_t j = 0; j < static_cast<int32_t>(threadIdx.x); ++j) before += parents[j] == parent ? sizes[j] : 0;
      if (inside) earlier()[i] = before;
      __syncthreads();
      if (inside) atomicAdd(of_parent, mine);
      __syncthreads();
    }
  }

  const LeafSource& source_;
  const int64_t n_;
  TreeNode* const nodes_;
  int32_t* const scratch_;
};

// The same numbers for a tree of few nodes, which decoding has: a thread a node walks up to the root by itself, in
// shared memory. What takes time in front of a short call is the number of barriers, and of instructions that nobody
// ran since the last one.
inline constexpr int32_t few_nodes = 128;

__device__ inline void make_few_nodes(const LeafSource& source, const LeafArgs& leaf) {
  __shared__ int32_t parents[few_nodes], sizes[few_nodes], steps[few_nodes];
  const auto n = static_cast<int32_t>(leaf.ints[1]), i = static_cast<int32_t>(threadIdx.x);
  const bool inside = i < n;
  int64_t parent = inside ? source.at(i) : -1;
  if (parent < -1 || parent >= i) parent = -1;
  if (i < few_nodes) parents[i] = inside ? static_cast<int32_t>(parent) : -2, sizes[i] = 0;
  __syncthreads();
  TreeNode node{static_cast<int32_t>(parent), -1, i, 0, 0};
  if (inside) {
    int32_t depth = 0;
    bool chain = true;
    for (int32_t a = i; a >= 0; a = parents[a], ++depth) {
      atomicAdd(&sizes[a], 1);
      chain &= a == i - depth;
      if (chain) node.chain = a;
    }
    int32_t a = i;
    for (int32_t levels = depth & -depth; levels > 0 && a >= 0; --levels) a = parents[a];
    node.jump = a;
  }
  __syncthreads();
  if (inside) {  // from the parent's number on: what its earlier children take up, and the parent itself
    int32_t before = parent >= 0 ? 1 : 0;
    for (int32_t j = 0; j < i; ++j) before += parents[j] == parent ? sizes[j] : 0;
    steps[i] = before;
  }
  __syncthreads();
  if (inside) {
    for (int32_t a = i; a >= 0; a = parents[a]) node.enter += steps[a];
    node.leave = node.enter + sizes[i];
    made<TreeNode>(leaf, 0)[i] = node;
  }
  static_assert(Tree::block == 32);  // a warp's nodes
  const auto leaves = static_cast<int32_t>(leaf.ints[2]);
  TreeBounds* const bounds = made<TreeBounds>(leaf, 1);
  if (i / 32 < leaves) {
    const TreeBounds all{__reduce_min_sync(~0u, inside ? node.enter : INT32_MAX),
                         __reduce_max_sync(~0u, inside ? node.enter : -1),
                         __reduce_max_sync(~0u, inside ? node.leave : -1)};
    if (i % 32 == 0) bounds[leaves + i / 32] = all;
  }
  __syncthreads();
  make_heap(bounds, leaves, [](const TreeBounds& a, const TreeBounds& b) { return Tree::join(a, b); });
}

__device__ inline void make_tree_bounds(const LeafArgs& leaf) {
  const int64_t n = leaf.ints[1], leaves = leaf.ints[2];
  auto* const heap = made<TreeBounds>(leaf, 1);
  for (int64_t i = threadIdx.x; i < leaves; i += blockDim.x) {
    heap[leaves + i] =
        Tree::scan(leaf, {INT32_MAX, -1, -1}, min_of(i * Tree::block, n), min_of((i + 1) * Tree::block, n));
  }
  __syncthreads();
  make_heap(heap, leaves, [](const TreeBounds& a, const TreeBounds& b) { return Tree::join(a, b); });
}

__global__ void __launch_bounds__(prepare_threads) plan_prepare(const __grid_constant__ PlanBuild build) {
  ptx::wait_for_previous();
  const MadeLeaf& from = build.made[blockIdx.x];
  const LeafArgs& leaf = build.leaves[from.leaf];
  const int64_t warps_here = blockDim.x / 32, warp = blockIdx.y * warps_here + threadIdx.x / 32;
  const int64_t warps = gridDim.y * warps_here;
  switch (leaf.op) {
    case Op::blocks:
      make_map(from.sources[0], leaf.ints[2], warp, warps, made<uint64_t>(leaf, 0));
      return;
    case Op::row_intervals:
    case Op::col_intervals:
      make_intervals(from.sources, leaf, warp, warps);
      return;
    default:
      break;
  }
  if (blockIdx.y != 0) return;
  switch (leaf.op) {
    case Op::documents:
      for (int slot = 0; slot < 2; ++slot) make_offsets(from.sources[slot], made<int64_t>(leaf, slot));
      return;
    case Op::prefix:
      if (threadIdx.x == 0) *made<int64_t>(leaf, 0) = clamp_to(from.sources[0].at(0), 0, from.sources[0].limit);
      return;
    case Op::shared_prefix:
      make_sums(from.sources[0], leaf.ints[0], made<int64_t>(leaf, 0));
      return;
    case Op::tree:
      if (leaf.ints[1] <= few_nodes) {
        make_few_nodes(from.sources[0], leaf);
        return;
      }
      TreeMaker(from.sources[0], leaf).make();
      make_tree_bounds(leaf);
      return;
    default:
      __trap();  // bind() makes no other kind on the device
  }
}

__global__ void __launch_bounds__(prepare_threads) plan_heaps(const __grid_constant__ PlanBuild build) {
  ptx::wait_for_previous();
  const LeafArgs& leaf = build.leaves[build.made[blockIdx.x].leaf];
  if (leaf.op != Op::row_intervals && leaf.op != Op::col_intervals) return;
  for (int64_t i = 0; i < leaf.ints[0]; ++i) {
    make_heap(made<IntervalBounds>(leaf, 2) + i * 2 * leaf.ints[2], leaf.ints[2],
              [](const IntervalBounds& a, const IntervalBounds& b) { return IntervalTable::join(a, b); });
  }
}

}  // namespace anymask::plan_build
