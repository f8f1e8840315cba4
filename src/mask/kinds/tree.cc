#include "mask/kinds/tree.h"

#include <bit>

#include "mask/kind.h"
#include "mask/kinds/align.h"
#include "mask/kinds/random_arguments.h"

namespace anymask {
namespace {

// Preorder numbers without recursion: sizes from the last node up (children come after their parents), then each node
// is entered behind what its parent has handed out so far.
std::vector<TreeNode> build_nodes(const std::vector<int64_t>& parents) {
  const size_t n = parents.size();
  std::vector<TreeNode> nodes(n);
  std::vector<int32_t> size(n, 1), depth(n, 1), next(n + 1, 0);  // next[1 + parent]: first free number below it
  for (size_t i = n; i-- > 0;) {
    if (parents[i] >= 0) size[parents[i]] += size[i];
  }
  for (size_t i = 0; i < n; ++i) {
    const auto parent = static_cast<int32_t>(parents[i]);
    TreeNode& node = nodes[i];
    node.parent = parent;
    node.enter = next[1 + parent];
    node.leave = node.enter + size[i];
    next[1 + parent] = node.leave;
    next[1 + i] = node.enter + 1;
    node.chain = i > 0 && parent == static_cast<int32_t>(i) - 1 ? nodes[i - 1].chain : static_cast<int32_t>(i);
    // Skew-binary jumps: as far as the parent's last two together when these are equally long, else just to the parent.
    node.jump = parent;
    if (parent >= 0) {
      const auto depth_of = [&](int32_t x) { return x < 0 ? 0 : depth[x]; };
      depth[i] = depth[parent] + 1;
      const int32_t first = nodes[parent].jump, second = first < 0 ? -1 : nodes[first].jump;
      if (depth[parent] - depth_of(first) == depth_of(first) - depth_of(second)) node.jump = second;
    }
  }
  return nodes;
}

std::vector<TreeBounds> build_bounds(const std::vector<TreeNode>& nodes, size_t leaves) {
  std::vector<TreeBounds> heap(2 * leaves, {INT32_MAX, -1, -1});
  for (size_t i = 0; i < nodes.size(); ++i) {
    TreeBounds& bounds = heap[leaves + i / static_cast<size_t>(Tree::block)];
    bounds = Tree::join(bounds, {nodes[i].enter, nodes[i].enter, nodes[i].leave});
  }
  for (size_t i = leaves; i-- > 1;) heap[i] = Tree::join(heap[2 * i], heap[2 * i + 1]);
  return heap;
}

void check(const LeafArguments& in) {
  require_rank(in, 0, {1, 2}, "[nodes], or [b, nodes]");
  const TensorView& view = in.array(0)->view;
  if (view.shape[view.rank - 1] > INT32_MAX)
    fail_invalid(where(in, 0), " has shape ", view, "; expected at most 2^31 - 1 nodes: split the tree");
  if (in.given(1) && in.integer(1) < 0)
    fail_invalid(where(in, 1), " is ", in.integer(1), "; expected 0 or more: it is a number of keys");
}

std::vector<int64_t> load_parents(const LeafArguments& in, const TensorView& view) {
  std::vector<int64_t> parents = load_integers(view);
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    if (parents[i] < -1 || parents[i] >= i) {
      fail_invalid(where(in, 0), " has ", parents[i], " at index ", i,
                   "; expected -1 (a root) or an earlier node: list parents before children");
    }
  }
  return parents;
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = plane_view(in, 0, plane);
  const int64_t n = view.shape[0];
  std::vector<int64_t> parents;
  if (!on_device(in)) parents = load_parents(in, view);
  if (n > plane.s_kv)
    fail_invalid(where(in, 0), " has ", n, " nodes; expected at most s_kv = ", plane.s_kv, ": each node is a key");
  const int64_t prefix = in.given(1) ? in.integer(1) : plane.s_kv - n;
  if (prefix > plane.s_kv - n) {
    fail_invalid("tree: prefix is ", prefix, " before ", n, " nodes; expected prefix + nodes <= s_kv = ", plane.s_kv,
                 ": use a prefix of ", plane.s_kv - n, " or less");
  }
  const uint64_t leaves = std::bit_ceil(static_cast<uint64_t>(n / Tree::block + 1));
  leaf.args.shift = plane.shift(in.top_left(2));
  leaf.args.ints[0] = prefix;
  leaf.args.ints[1] = n;
  leaf.args.ints[2] = static_cast<int64_t>(leaves);
  if (on_device(in)) {
    leaf.sources[0] = source_of(view, n, leaf);
    leaf.make_on_device(0, n * (static_cast<int64_t>(sizeof(TreeNode)) + Tree::scratch_bytes));
    leaf.make_on_device(1, 2 * static_cast<int64_t>(leaves * sizeof(TreeBounds)));
    return;
  }
  leaf.hasher.add_bytes(parents.data(), n * 8);
  std::vector<TreeNode> nodes = build_nodes(parents);
  leaf.hold(1, build_bounds(nodes, leaves));
  leaf.hold(0, std::move(nodes));
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  const int64_t n = example::pick(rng, 0, shape.s_kv),
                rows = example::chance(rng, 3) && shape.batch > 0 ? shape.batch : 0;
  const int64_t form = example::pick(rng, 0, 2);  // bushy, any, nearly a chain
  std::vector<int64_t> parents;
  for (int64_t b = 0; b < std::max<int64_t>(rows, 1); ++b) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t lowest = form == 0 || example::chance(rng, 8) ? -1 : form == 1 ? i / 2 - 1 : i - 2;
      parents.push_back(example::pick(rng, std::max<int64_t>(lowest, -1), form == 0 ? (i - 1) / 3 : i - 1));
      parents.back() = std::min(parents.back(), i - 1);
    }
  }
  std::vector<MaskArgument> arguments{
      {"", example::integers(rng, rows > 0 ? std::vector<int64_t>{rows, n} : std::vector<int64_t>{n}, parents)}};
  if (example::chance(rng, 2)) arguments.push_back({"prefix", example::pick(rng, 0, shape.s_kv - n)});
  example::maybe_top_left(rng, arguments);
  return Mask::leaf("tree", arguments);
}

}  // namespace

KindRow tree_kind() {
  return {.kind = {.op = Op::tree,
                   .name = "tree",
                   .arguments = {{"parents", ArgumentType::integers, true, "",
                                  "parent of each node, an earlier one or -1 for a root; [nodes] or [b, nodes]"},
                                 {"prefix", ArgumentType::integer, false, "",
                                  "keys before the tree; s_kv - nodes when not given"},
                                 align_argument()},
                   .keeps = "kv < prefix and kv <= p, or node kv - prefix is node p - prefix or an ancestor of it",
                   .summary = "a tree of candidate continuations after a context: speculative decoding",
                   .example = "tree([-1, 0, 0, 1, 1, 2, 2, 3, 5])",
                   .random = random},
          .axes = ArrayAxes::rows,
          .check = check,
          .bind = bind,
          .ops = leaf_ops<Tree>()};
}

}  // namespace anymask
