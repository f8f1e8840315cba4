// tree(parents[, prefix]): kv < prefix and kv <= p, or node kv - prefix is node p - prefix or an ancestor of it.
// ints: prefix, nodes, leaves of the bounds tree. data[0]: TreeNode [nodes]. data[1]: TreeBounds [2 * leaves], a heap
// over blocks of 32 nodes. Parents come before their children, so ancestors of a node are met in falling order on the
// way up.
#pragma once

#include "mask/kinds/common.h"

namespace anymask {

struct TreeNode {
  int32_t parent;        // -1: a root
  int32_t jump;          // an ancestor far up (or -1), so that climbing to any height takes O(log nodes) steps
  int32_t chain;         // first node of the stretch up to this one in which each node is the parent of the next
  int32_t enter, leave;  // preorder interval: a is an ancestor of x, or x, when a.enter <= x.enter < a.leave
};
struct TreeBounds {  // over a range of nodes
  int32_t min_enter, max_enter, max_leave;
};

struct Tree {
  static constexpr int64_t block = 32;
  static constexpr int64_t scratch_bytes = 24;  // a node, behind them, where a device makes them
  static ANYMASK_HOST_DEVICE const TreeNode* nodes(const LeafArgs& a) {
    return static_cast<const TreeNode*>(a.data[0]);
  }

  static ANYMASK_HOST_DEVICE Kept classify(const LeafArgs& a, const Rect& r) { return classify_up_to(128, a, r); }
  static ANYMASK_HOST_DEVICE Kept sketch(const LeafArgs& a, const Rect& r) { return classify_up_to(0, a, r); }

  // Up to so many rows are looked at one by one.
  static ANYMASK_HOST_DEVICE Kept classify_up_to(int64_t max_rows, const LeafArgs& a, const Rect& r) {
    const int64_t prefix = a.ints[0], end = prefix + a.ints[1];
    const int64_t p_begin = r.q_begin + a.shift, p_end = r.q_end + a.shift;
    KeptSum sum;
    if (r.kv_begin < prefix) sum.add(classify_causal(p_begin, p_end, r.kv_begin, min_of(r.kv_end, prefix)));
    if (r.kv_end > end) sum.add(Kept::empty);
    const int64_t kv_begin = max_of(r.kv_begin, prefix), kv_end = min_of(r.kv_end, end);
    if (kv_begin < kv_end) {
      if (p_begin < prefix || p_end > end) sum.add(Kept::empty);
      const int64_t first = max_of(p_begin, prefix), last = min_of(p_end, end);
      if (first < last) {
        sum.add(classify_nodes(a, first - prefix, last - prefix, kv_begin - prefix, kv_end - prefix, max_rows));
      }
    }
    return sum.result();
  }

  // Nodes [x_begin, x_end) against ancestors [k_begin, k_end). FULL is exact: the keys are a chain and every row is
  // below its end. EMPTY is exact up to max_rows; above that by preorder intervals alone, which costs a closer look and
  // no more.
  static ANYMASK_HOST_DEVICE Kept classify_nodes(const LeafArgs& a, int64_t x_begin, int64_t x_end, int64_t k_begin,
                                                 int64_t k_end, int64_t max_rows) {
    if (k_begin >= x_end) return Kept::empty;
    const TreeBounds rows = bounds(a, x_begin, x_end);
    const TreeNode& lowest = nodes(a)[k_end - 1];
    if (lowest.chain <= k_begin && lowest.enter <= rows.min_enter && rows.max_enter < lowest.leave) return Kept::full;
    if (max_of(x_begin, k_begin) < min_of(x_end, k_end)) return Kept::partial;  // a node keeps itself
    const TreeBounds keys = bounds(a, k_begin, k_end);
    if (rows.max_enter < keys.min_enter || rows.min_enter >= keys.max_leave) return Kept::empty;
    if (x_end - x_begin > max_rows) return Kept::partial;
    for (int64_t x = x_begin; x < x_end; ++x) {
      if (ancestor_below(a, x, k_end) >= k_begin) return Kept::partial;
    }
    return Kept::empty;
  }

  static ANYMASK_HOST_DEVICE bool keep(const LeafArgs& a, int64_t q, int64_t kv) {
    const int64_t prefix = a.ints[0], p = q + a.shift;
    if (kv < prefix) return kv <= p;
    const int64_t x = p - prefix, k = kv - prefix;
    if (x < 0 || x >= a.ints[1] || k >= a.ints[1]) return false;
    return nodes(a)[k].enter <= nodes(a)[x].enter && nodes(a)[x].enter < nodes(a)[k].leave;
  }

  // The ancestors of a row are walked once, whole chains at a time.
  static ANYMASK_HOST_DEVICE void row_words(const LeafArgs& a, int64_t q, int64_t kv_begin, int64_t words,
                                            uint64_t* bits) {
    const int64_t prefix = a.ints[0], p = q + a.shift;
    const Interval context = clip(0, min_of(prefix, p + 1), a.s_kv);
    for (int64_t w = 0; w < words; ++w) bits[w] = interval_word(context, kv_begin + 64 * w);
    const int64_t x = p - prefix, k_begin = max_of(kv_begin - prefix, 0), k_end = kv_begin + 64 * words - prefix;
    if (x < 0 || x >= a.ints[1] || k_end <= 0) return;
    int64_t k = ancestor_below(a, x, k_end);
    while (k >= k_begin) {
      const int64_t top = max_of(nodes(a)[k].chain, k_begin);
      set_range(bits, top + prefix - kv_begin, k + 1 + prefix - kv_begin);
      k = nodes(a)[top].parent;
    }
  }
  // A node keeps what its parent keeps, and itself: where the parent is among the rows, its words are copied. Walking
  // every row's ancestors made planning a tree of 4,096 nodes take 14.6 ms instead of 1.75.
  static ANYMASK_HOST_DEVICE void words(const LeafArgs& a, int64_t q_begin, int64_t rows, int64_t kv_begin,
                                        int64_t words, uint64_t* bits) {
    for (int64_t row = 0; row < rows; ++row, bits += words) {
      const int64_t x = q_begin + row + a.shift - a.ints[0];
      const int64_t up = x >= 0 && x < a.ints[1] && nodes(a)[x].parent >= 0 ? x - nodes(a)[x].parent : row + 1;
      if (up > row) {
        row_words(a, q_begin + row, kv_begin, words, bits);
        continue;
      }
      for (int64_t w = 0; w < words; ++w) bits[w] = bits[w - up * words];
      const int64_t self = x + a.ints[0] - kv_begin;
      if (self >= 0 && self < 64 * words) set_range(bits, self, self + 1);
    }
  }
  static ANYMASK_HOST_DEVICE void set_range(uint64_t* bits, int64_t begin, int64_t end) {
    for (int64_t w = begin / 64; w * 64 < end; ++w) bits[w] |= bit_range(begin - 64 * w, end - 64 * w);
  }

  // The nearest of x and its ancestors that comes before `end` (positive); -1 if none does.
  static ANYMASK_HOST_DEVICE int64_t ancestor_below(const LeafArgs& a, int64_t x, int64_t end) {
    while (x >= end) {
      const TreeNode& node = nodes(a)[x];
      if (node.chain < end) return end - 1;  // inside the chain every number is an ancestor
      x = node.jump >= end ? node.jump : node.parent;
    }
    return x;
  }

  static ANYMASK_HOST_DEVICE TreeBounds join(TreeBounds a, TreeBounds b) {
    return {a.min_enter < b.min_enter ? a.min_enter : b.min_enter,
            a.max_enter > b.max_enter ? a.max_enter : b.max_enter,
            a.max_leave > b.max_leave ? a.max_leave : b.max_leave};
  }
  static ANYMASK_HOST_DEVICE TreeBounds scan(const LeafArgs& a, TreeBounds result, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const TreeNode& node = nodes(a)[i];
      result = join(result, {node.enter, node.enter, node.leave});
    }
    return result;
  }
  static ANYMASK_HOST_DEVICE TreeBounds bounds(const LeafArgs& a, int64_t begin, int64_t end) {
    TreeBounds result{INT32_MAX, -1, -1};
    int64_t low = (begin + block - 1) / block, high = end / block;  // whole blocks
    if (low >= high) return scan(a, result, begin, end);
    result = scan(a, result, begin, low * block);
    result = scan(a, result, high * block, end);
    const auto* heap = static_cast<const TreeBounds*>(a.data[1]);
    for (low += a.ints[2], high += a.ints[2]; low < high; low /= 2, high /= 2) {
      if (low & 1) result = join(result, heap[low++]);
      if (high & 1) result = join(result, heap[--high]);
    }
    return result;
  }
};

}  // namespace anymask
