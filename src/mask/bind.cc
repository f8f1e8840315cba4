// Binding: every leaf checked and bound for the batch entries and heads that tell its planes apart, then the expression
// of each plane simplified, ordered and laid out flat. Equal planes are found by digest.
//
// Simplification happens here, on bound leaves, after every argument was checked, so it can drop neither checks nor
// meaning: leaves that keep all or nothing of their plane become constants; constants, double complements, repeated
// operands and an operand beside its complement fold away; nested conjunctions (disjunctions) become one.
#include <algorithm>
#include <map>
#include <tuple>

#include "mask/build.h"
#include "mask/leaf_memo.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

struct BoundOperand {
  std::shared_ptr<const BoundLeaf> leaf;
  Kept whole = Kept::partial;  // of all its plane
  Interval first{}, last{};    // rows 0 and s_q - 1 of a band kind
};

// The expression of one plane while it is built.
struct Node {
  Step step = Step::empty;  // leaf, full, empty, op_not, op_and, op_or
  std::vector<uint32_t> operands;
  const BoundOperand* leaf = nullptr;
  Digest digest{};
  uint32_t stack = 1;
  bool band = false;
  Interval first{}, last{};  // of a band: its first and last row, which bound all ends by monotony
};

class PlaneBuilder {
 public:
  explicit PlaneBuilder(int64_t s_kv) : s_kv_(s_kv) {}

  uint32_t constant(bool full) {
    Node node;
    node.step = full ? Step::full : Step::empty;
    node.band = true;
    node.first = node.last = {0, full ? s_kv_ : 0};
    Hasher hasher;
    hasher.add(static_cast<uint64_t>(node.step));
    node.digest = hasher.finish();
    return add(std::move(node));
  }

  uint32_t leaf(const BoundOperand& operand) {
    if (operand.whole != Kept::partial) return constant(operand.whole == Kept::full);
    Node node;
    node.step = Step::leaf;
    node.leaf = &operand;
    node.digest = operand.leaf->digest;
    node.band = operand.leaf->ops->interval != nullptr;
    node.first = operand.first;
    node.last = operand.last;
    return add(std::move(node));
  }

  uint32_t complement(uint32_t operand) {
    const Node& inner = nodes_[operand];
    if (inner.step == Step::full || inner.step == Step::empty) return constant(inner.step == Step::empty);
    if (inner.step == Step::op_not) return inner.operands[0];
    Node node;
    node.step = Step::op_not;
    node.operands = {operand};
    node.digest = combine(Step::op_not, {&inner.digest, 1});
    node.stack = inner.stack;
    node.band = inner.band && (begins_at_zero(inner) || ends_at_end(inner));
    node.first = band_not(inner.first, begins_at_zero(inner), s_kv_);
    node.last = band_not(inner.last, begins_at_zero(inner), s_kv_);
    return add(std::move(node));
  }

  uint32_t join(Step op, std::span<const uint32_t> given) {
    const Step neutral = op == Step::op_and ? Step::full : Step::empty,
               absorbing = op == Step::op_and ? Step::empty : Step::full;
    std::vector<uint32_t> operands;
    for (const uint32_t at : given) {
      const Node& operand = nodes_[at];
      if (operand.step == absorbing) return at;
      if (operand.step == neutral) continue;
      if (operand.step == op) {
        operands.insert(operands.end(), operand.operands.begin(), operand.operands.end());
      } else {
        operands.push_back(at);
      }
    }
    if (operands.empty()) return constant(neutral == Step::full);
    const auto by_digest = [this](uint32_t a, uint32_t b) { return nodes_[a].digest < nodes_[b].digest; };
    std::sort(operands.begin(), operands.end(), by_digest);
    operands.erase(std::unique(operands.begin(), operands.end(),
                               [this](uint32_t a, uint32_t b) { return nodes_[a].digest == nodes_[b].digest; }),
                   operands.end());
    for (const uint32_t at : operands) {
      if (nodes_[at].step == Step::op_not &&
          std::binary_search(operands.begin(), operands.end(), nodes_[at].operands[0], by_digest)) {
        return constant(absorbing == Step::full);
      }
    }
    if (operands.size() == 1) return operands[0];

    Node node;
    node.step = op;
    std::vector<Digest> digests;
    for (const uint32_t at : operands) digests.push_back(nodes_[at].digest);
    node.digest = combine(op, digests);
    // Most stack first; among equals the kinds in the order of their numbers, arithmetic before arrays.
    std::stable_sort(operands.begin(), operands.end(), [this](uint32_t a, uint32_t b) {
      if (nodes_[a].stack != nodes_[b].stack) return nodes_[a].stack > nodes_[b].stack;
      return cost(nodes_[a]) < cost(nodes_[b]);
    });
    node.stack = std::max(nodes_[operands[0]].stack, nodes_[operands[1]].stack + 1);
    node.first = nodes_[operands[0]].first;
    node.last = nodes_[operands[0]].last;
    bool bands = true, zero = true, end = true;
    for (const uint32_t at : operands) {
      const Node& operand = nodes_[at];
      bands &= operand.band;
      zero &= begins_at_zero(operand);
      end &= ends_at_end(operand);
      node.first = op == Step::op_and ? band_and(node.first, operand.first) : band_or(node.first, operand.first);
      node.last = op == Step::op_and ? band_and(node.last, operand.last) : band_or(node.last, operand.last);
    }
    node.band = bands && (op == Step::op_and || zero || end);
    node.operands = std::move(operands);
    return add(std::move(node));
  }

  // Lays the expression out as postfix steps, with a stack of its own: expressions may be nested thousands of levels
  // deep.
  void lay_out(uint32_t root, std::vector<PlaneStep>& steps,
               std::vector<std::shared_ptr<const BoundLeaf>>& leaves) const {
    struct Frame {
      uint32_t node;
      size_t next = 0;
      std::vector<size_t> skips;
    };
    std::vector<Frame> frames;
    frames.push_back({root, 0, {}});
    while (!frames.empty()) {
      const Node& node = nodes_[frames.back().node];
      const size_t next = frames.back().next++;
      if (node.step == Step::leaf) {
        steps.push_back({Step::leaf, false, static_cast<uint32_t>(leaves.size())});
        leaves.push_back(node.leaf->leaf);
        frames.pop_back();
        continue;
      }
      const bool joins = node.step == Step::op_and || node.step == Step::op_or;
      if (joins && next > 1) steps.push_back({node.step, false, 0});
      if (next < node.operands.size()) {
        if (next > 0) {
          frames.back().skips.push_back(steps.size());
          steps.push_back({node.step == Step::op_and ? Step::skip_if_empty : Step::skip_if_full, false, 0});
        }
        frames.push_back({node.operands[next], 0, {}});
        continue;
      }
      if (!joins)
        steps.push_back({node.step, node.step == Step::op_not && begins_at_zero(nodes_[node.operands[0]]), 0});
      for (const size_t skip : frames.back().skips) steps[skip].at = static_cast<uint32_t>(steps.size());
      frames.pop_back();
    }
  }

  const Node& node(uint32_t at) const { return nodes_[at]; }

 private:
  uint32_t add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  static Digest combine(Step op, std::span<const Digest> digests) {
    Hasher hasher;
    hasher.add(static_cast<uint64_t>(op));
    for (const Digest& digest : digests) hasher.add(digest);
    return hasher.finish();
  }
  static uint32_t cost(const Node& node) {
    return node.step == Step::leaf ? static_cast<uint32_t>(node.leaf->leaf->args.op)
                                   : 100 + static_cast<uint32_t>(node.operands.size());
  }
  // Of every row, by monotony: begins never fall, so the last says it; ends never fall, so the first does.
  static bool begins_at_zero(const Node& node) { return node.band && node.last.begin == 0; }
  bool ends_at_end(const Node& node) const { return node.band && node.first.end == s_kv_; }

  int64_t s_kv_;
  std::vector<Node> nodes_;
};

}  // namespace

class BoundMaskBuilder {
 public:
  BoundMaskBuilder(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv, Device reader,
                   const Workers& workers)
      : program_(mask.program()),
        tree_(tree_of(program_)),
        sequences_(sequences),
        h_q_(h_q),
        h_kv_(h_kv),
        reader_(reader),
        workers_(workers),
        memo_(mask.leaf_memo()) {}

  BoundMask build() {
    check_shapes();
    find_dependence();
    BoundMask bound;
    bound.heads = head_classes_ == 1 ? 1 : h_q_;
    bound.plane_of.reserve(sequences_.size() * static_cast<size_t>(bound.heads));
    std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int32_t>
        known;  // lengths, batch entry, head: what a plane can depend on
    std::map<Digest, int32_t> by_digest;
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const Sequence& sequence = sequences_[b];
      for (int64_t head = 0; head < bound.heads; ++head) {
        const auto batch = static_cast<int64_t>(b);
        const int64_t head_class = head_classes_ == h_q_ ? head : head / (h_q_ / head_classes_);
        const auto [found, inserted] = known.try_emplace(
            {sequence.s_q, sequence.s_kv, by_batch_ ? batch : 0, bound.heads == 1 ? 0 : head_class}, 0);
        if (inserted) {
          PlaneMask plane = build_plane({.s_q = sequence.s_q,
                                         .s_kv = sequence.s_kv,
                                         .batch = batch,
                                         .num_sequences = static_cast<int64_t>(sequences_.size()),
                                         .head = head,
                                         .h_q = h_q_,
                                         .h_kv = h_kv_,
                                         .reader = reader_,
                                         .workers = workers_});
          const auto [same, is_new] = by_digest.try_emplace(plane.digest(), static_cast<int32_t>(bound.planes.size()));
          if (is_new) bound.planes.push_back(std::move(plane));
          found->second = same->second;
        }
        bound.plane_of.push_back(found->second);
      }
    }
    return bound;
  }

 private:
  void check_shapes() const {
    if (h_q_ < 1 || h_kv_ < 1 || h_q_ % h_kv_ != 0) {
      fail_invalid("mask: bound to h_q = ", h_q_, " and h_kv = ", h_kv_,
                   " heads; h_kv must divide h_q: pass the heads of q and of k");
    }
    for (const Sequence& sequence : sequences_) {
      for (const int64_t length : {sequence.s_q, sequence.s_kv}) {
        if (length < 0 || length > max_length) {
          fail_invalid("mask: bound to a sequence of ", sequence.s_q, " rows and ", sequence.s_kv,
                       " keys; expected 0 to 2^48: check the lengths");
        }
      }
    }
    for (const Instruction& instruction : program_.code) {
      if (instruction.op == Op::per_batch && instruction.arity != sequences_.size()) {
        fail_invalid("per_batch: got ", instruction.arity, " masks; expected ", sequences_.size(),
                     ", one for each batch entry or packed sequence: ", "give as many");
      }
      if (instruction.op == Op::per_head && instruction.arity != 1 && instruction.arity != h_kv_ &&
          instruction.arity != h_q_) {
        fail_invalid("per_head: got ", instruction.arity, " masks; expected 1, h_kv = ", h_kv_, " or h_q = ", h_q_,
                     ": give one for each head");
      }
    }
  }

  LeafArguments arguments_of(const Instruction& instruction) const {
    return LeafArguments(*find_row(instruction.op), program_.ints.data() + instruction.int_begin,
                         program_.arrays.data() + instruction.array_begin);
  }

  void find_dependence() {
    const auto heads = [this](int64_t extent) { head_classes_ = std::max(head_classes_, extent); };
    extents_.resize(program_.code.size());
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& instruction = program_.code[i];
      if (instruction.op == Op::per_batch) by_batch_ |= instruction.arity > 1;
      if (instruction.op == Op::per_head) heads(instruction.arity);
      if (is_operator(instruction.op)) continue;
      const LeafArguments arguments = arguments_of(instruction);
      check_extents(arguments, {.s_q = 0,
                                .s_kv = 0,
                                .batch = 0,
                                .num_sequences = static_cast<int64_t>(sequences_.size()),
                                .head = 0,
                                .h_q = h_q_,
                                .h_kv = h_kv_,
                                .reader = reader_,
                                .workers = workers_});
      extents_[i] = extents_of(arguments);
      by_batch_ |= extents_[i].batch > 1;
      heads(extents_[i].heads);
    }
  }

  // Leaves that differ in nothing are bound once.
  const BoundOperand& bind_leaf(size_t i, const PlaneContext& plane) {
    const Instruction& instruction = program_.code[i];
    const LeafKey key{i,
                      plane.s_q,
                      plane.s_kv,
                      extents_[i].batch > 1 ? plane.batch : 0,
                      head_index(extents_[i].heads, plane),
                      plane.operand != nullptr ? plane.operand->digest() : Digest{}};
    const auto [found, inserted] = leaves_.try_emplace(key);
    if (!inserted) return found->second;
    BoundOperand& operand = found->second;
    const LeafArguments arguments = arguments_of(instruction);
    const bool remembered = memo_ != nullptr && arguments.row().remembered;
    if (remembered) operand.leaf = memo_->find(key);
    if (operand.leaf == nullptr) {
      operand.leaf = bind_new(arguments, plane);
      if (remembered) memo_->insert(key, operand.leaf);
    }
    const LeafArgs& args = operand.leaf->args;
    if (operand.leaf->unread) {
      operand.first = operand.leaf->first;
      operand.last = operand.leaf->last;
    } else if (args.s_q > 0 && args.s_kv > 0) {
      operand.whole = operand.leaf->ops->classify(args, {0, args.s_q, 0, args.s_kv});
      if (operand.leaf->ops->interval != nullptr) {
        operand.first = operand.leaf->ops->interval(args, 0);
        operand.last = operand.leaf->ops->interval(args, args.s_q - 1);
      }
    } else {
      operand.whole = Kept::empty;  // no pairs
    }
    return operand;
  }

  static std::shared_ptr<const BoundLeaf> bind_new(const LeafArguments& arguments, const PlaneContext& plane) {
    auto leaf = std::make_shared<BoundLeaf>();
    leaf->ops = &arguments.row().ops;
    LeafArgs& args = leaf->args;
    args.op = arguments.row().kind.op;
    args.s_q = plane.s_q;
    args.s_kv = plane.s_kv;
    arguments.row().bind(arguments, plane, *leaf);
    leaf->hasher.add(static_cast<uint64_t>(args.op));
    for (const int64_t number : {args.s_q, args.s_kv, args.shift}) leaf->hasher.add(static_cast<uint64_t>(number));
    for (const int64_t number : args.ints) leaf->hasher.add(static_cast<uint64_t>(number));
    leaf->digest = leaf->hasher.finish();
    return leaf;
  }

  // Instructions this plane evaluates: per_batch and per_head take one operand each.
  std::vector<bool> used_by(const PlaneContext& plane) const {
    std::vector<bool> used(program_.code.size(), false);
    std::vector<uint32_t> open{static_cast<uint32_t>(program_.code.size() - 1)};
    while (!open.empty()) {
      const uint32_t i = open.back();
      open.pop_back();
      used[i] = true;
      const auto operands = tree_.operands(i);
      switch (program_.code[i].op) {
        case Op::per_batch:
          open.push_back(operands[static_cast<size_t>(plane.batch)]);
          break;
        case Op::per_head:
          open.push_back(operands[static_cast<size_t>(head_index(program_.code[i].arity, plane))]);
          break;
        default:
          open.insert(open.end(), operands.begin(), operands.end());
      }
    }
    return used;
  }

  PlaneMask build_plane(const PlaneContext& plane) {
    try {
      return build_checked(plane);
    } catch (const Error& error) {
      if (sequences_.size() == 1) throw;
      throw Error(error.status(), cat(error.what(), " (in sequence ", plane.batch, ")"));
    }
  }

  PlaneMask build_checked(const PlaneContext& plane) {
    PlaneBuilder builder(plane.s_kv);
    const std::vector<bool> used = used_by(plane);
    std::vector<uint32_t> values;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      if (!used[i]) continue;
      const Instruction& instruction = program_.code[i];
      switch (instruction.op) {
        case Op::per_batch:
        case Op::per_head:
          break;  // its one operand is its value
        case Op::op_not:
          values.back() = builder.complement(values.back());
          break;
        case Op::op_and:
        case Op::op_or: {
          const std::span operands = std::span(values).last(instruction.arity);
          const uint32_t value = builder.join(instruction.op == Op::op_and ? Step::op_and : Step::op_or, operands);
          values.resize(values.size() - instruction.arity);
          values.push_back(value);
          break;
        }
        default:
          values.push_back(instruction.arity == 0 ? builder.leaf(bind_leaf(i, plane))
                                                  : leaf_among(builder, i, plane, take(values)));
      }
    }
    uint32_t root = values.back();
    if (plane.s_q == 0 || plane.s_kv == 0) root = builder.constant(false);
    return lay_out(builder, root, plane);
  }

  static uint32_t take(std::vector<uint32_t>& values) {
    const uint32_t value = values.back();
    values.pop_back();
    return value;
  }

  // A leaf of candidates keeps some of them: what it says of a pair counts where its operand keeps it.
  uint32_t leaf_among(PlaneBuilder& builder, size_t i, PlaneContext plane, uint32_t operand) {
    const PlaneMask candidates = lay_out(builder, operand, plane);
    if (builder.node(operand).step != Step::full) plane.operand = &candidates;
    const uint32_t both[] = {builder.leaf(bind_leaf(i, plane)), operand};
    return builder.join(Step::op_and, both);
  }

  static PlaneMask lay_out(const PlaneBuilder& builder, uint32_t root, const PlaneContext& plane) {
    auto code = std::make_shared<PlaneMask::Code>();
    const Node& node = builder.node(root);
    builder.lay_out(root, code->steps, code->leaves);
    code->stack = node.stack;
    code->band = node.band;
    code->unread = std::any_of(code->leaves.begin(), code->leaves.end(), [](const auto& leaf) { return leaf->unread; });
    if (code->stack > max_stack)
      throw Error(Status::internal, "mask: evaluation needs more stack than 2^63 leaves could");
    Hasher hasher;
    hasher.add(node.digest);
    hasher.add(static_cast<uint64_t>(plane.s_q));
    hasher.add(static_cast<uint64_t>(plane.s_kv));
    code->digest = hasher.finish();

    PlaneMask result;
    result.s_q = plane.s_q;
    result.s_kv = plane.s_kv;
    result.code_ = std::move(code);
    return result;
  }

  const MaskProgram& program_;
  const ProgramTree tree_;
  const std::span<const Sequence> sequences_;
  const int64_t h_q_, h_kv_;
  const Device reader_;
  const Workers workers_;
  bool by_batch_ = false;     // planes differ between batch entries of equal lengths
  int64_t head_classes_ = 1;  // 1, h_kv or h_q: heads that may have planes of their own
  std::vector<Extents> extents_;
  std::map<LeafKey, BoundOperand> leaves_;
  LeafMemo* const memo_;
};

BoundMask bind(const Mask& mask, std::span<const Sequence> sequences, int64_t h_q, int64_t h_kv, Device reader,
               const Workers& workers) {
  return BoundMaskBuilder(mask, sequences, h_q, h_kv, reader, workers).build();
}

}  // namespace anymask
