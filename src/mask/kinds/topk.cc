#include "mask/kinds/topk.h"

#include <cmath>

#include "mask/bound_mask.h"
#include "mask/kinds/bias_leaf.h"
#include "mask/select.h"

namespace anymask {
namespace {

enum : size_t { bias, window };  // places of the arguments; the third is the operand

void check(const LeafArguments& in) {
  check_bias(in, bias);
  if (in.integer(window) < 0) {
    fail_invalid("topk: window is ", in.integer(window),
                 "; expected 0 or more: it counts the keys a row keeps, of which there may be fewer");
  }
}

// Where the bias lies on a device its rows are selected there, before anyone evaluates the leaf
// (src/cuda/kernels/topk_select.cuh).
void select_on_device(const LeafArguments& in, const TensorView& view, const PlaneContext& plane, BoundLeaf& leaf) {
  leaf.args.ints[1] = min_of(in.integer(window), plane.s_kv);
  leaf.args.type[0] = static_cast<uint8_t>(view.dtype);
  add_place(leaf.hasher, view);
  if (plane.operand != nullptr) {
    leaf.among = std::make_shared<PlaneMask>(*plane.operand);
    leaf.hasher.add(plane.operand->digest());
  }
  const bool alike = view.stride[0] == 0 && (leaf.among == nullptr || leaf.among->same_rows());
  const int64_t rows = alike ? min_of(1, plane.s_q) : plane.s_q;
  leaf.args.stride[1][0] = rows > 1 ? 1 : 0;
  leaf.make_on_device(1, rows * static_cast<int64_t>(sizeof(TopkRow)));
}

void bind(const LeafArguments& in, const PlaneContext& plane, BoundLeaf& leaf) {
  const TensorView view = bind_bias(in, bias, plane, leaf);
  if (plane.s_kv > INT32_MAX) {
    fail_unsupported("topk: ", plane.s_kv, " keys; expected fewer than 2^31: call it for pieces of the sequence");
  }
  if (on_device(in)) return select_on_device(in, view, plane, leaf);
  if (plane.operand != nullptr && plane.operand->unread()) {
    fail_invalid(where(in, bias), " is on the CPU and arrays of `among` are on a CUDA device; who selects reads both: ",
                 "copy the bias to that device, or them to the CPU");
  }
  leaf.memory.push_back(in.array(bias)->owner);
  std::vector<TopkRow> rows = select_rows(view, plane.s_q, in.integer(window), plane.operand);
  leaf.args.stride[1][0] = rows.size() > 1 ? 1 : 0;
  // Planes are alike where the same biases are held against the same rows. Unlike other kinds' arrays biases count by
  // where they lie: reading them once more costs half of what selecting does.
  leaf.hasher.add(reinterpret_cast<uintptr_t>(view.data));
  for (const int64_t stride : leaf.args.stride[0]) leaf.hasher.add(static_cast<uint64_t>(stride));
  leaf.hasher.add_bytes(rows.data(), static_cast<int64_t>(rows.size() * sizeof(TopkRow)));
  leaf.hold(1, std::move(rows));
}

#if defined(__x86_64__)
// The same words by wider vectors: comparing 64 biases is most of what planning costs.
__attribute__((target("avx2"), flatten)) void words_avx2(const LeafArgs& a, int64_t q_begin, int64_t rows,
                                                         int64_t kv_begin, int64_t words, uint64_t* bits) {
  words_of<Topk>(a, q_begin, rows, kv_begin, words, bits);
}
#endif

LeafOps ops() {
  LeafOps ops = leaf_ops<Topk>();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) ops.words = words_avx2;
#endif
  return ops;
}

Mask random(std::mt19937_64& rng, const ExampleShape& shape) {
  // From every value its own to all alike: ties are the common case.
  const int64_t distinct = std::array{int64_t{1} << 20, int64_t{40}, int64_t{3}, int64_t{0}}[example::pick(rng, 0, 3)];
  const double unit = distinct > 1000 ? 1e-4 : 0.25;
  const int64_t specials = example::chance(rng, 2) ? 8 : int64_t{1} << 40;
  const Array array = example::bias(rng, shape, [&] {
    const float special[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 6e-8f, -6e-8f};
    return example::chance(rng, specials)
               ? special[example::pick(rng, 0, 9)]
               : static_cast<float>(static_cast<double>(example::pick(rng, -distinct, distinct)) * unit);
  });
  const int64_t edges[] = {0, 1, max_of(shape.s_kv - 1, 0), shape.s_kv, shape.s_kv + 3};
  const int64_t count =
      example::chance(rng, 2) ? edges[example::pick(rng, 0, 4)] : example::pick(rng, 0, max_of(shape.s_kv / 2, 1));
  std::vector<MaskArgument> arguments{{"", array}, {"", count}};
  if (example::chance(rng, 2)) {
    const auto kinds = kind_rows();
    Mask candidates = kinds[rng() % kinds.size()].kind.random(rng, shape);
    arguments.push_back({"among", example::chance(rng, 4) ? ~candidates : candidates});
  }
  return Mask::leaf("topk", arguments);
}

}  // namespace

KindRow topk_kind() {
  return {
      .kind = {.op = Op::topk,
               .name = "topk",
               .arguments = {{"bias", ArgumentType::array, true, "", bias_shapes},
                             {"window", ArgumentType::integer, true, "", "how many keys a row keeps at most"},
                             {"among", ArgumentType::mask, false, "", "the candidates; all keys unless given"}},
               .keeps = "kv is among the window largest biases of the row's candidates; ties keep the lower key, NaN "
                        "and -inf are never kept",
               .summary = "the keys of each row that matter most",
               .example = "topk(@bias, 4, causal)",
               .random = random},
      .axes = ArrayAxes::planes,
      .remembered = true,
      .check = check,
      .bind = bind,
      .ops = ops()};
}

}  // namespace anymask
