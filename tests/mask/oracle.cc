#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "mask/build.h"

namespace anymask::oracle {
namespace {

bool keep_at(const Mask& mask, size_t last, const Plane& plane, int64_t q, int64_t kv);

// Element of an array as a double: exact for everything tests put there.
double element(const Array& array, std::vector<int64_t> index) {
  const TensorView& view = array.view;
  int64_t at = 0;
  for (int i = 0; i < view.rank; ++i) at += (view.shape[i] == 1 ? 0 : index[i]) * view.stride[i];
  switch (view.dtype) {
    case DType::f32:
      return view.as<float>()[at];
    case DType::f64:
      return view.as<double>()[at];
    case DType::f16:
      return f16_to_f32(view.as<uint16_t>()[at]);
    case DType::bf16:
      return bf16_to_f32(view.as<uint16_t>()[at]);
    case DType::i32:
      return view.as<int32_t>()[at];
    case DType::i64:
      return static_cast<double>(view.as<int64_t>()[at]);
    case DType::u8:
    case DType::boolean:
      return view.as<uint8_t>()[at];
  }
  return 0;
}

int64_t head_of(const Array& array, const Plane& plane) {
  const int64_t heads = array.view.shape[1];
  return heads == plane.h_q ? plane.head : plane.head / (plane.h_q / plane.h_kv);
}

// [rows or 1, cols] with or without [b or 1, heads or 1] before it.
double at_plane(const Array& array, const Plane& plane, int64_t row, int64_t col) {
  if (array.view.rank == 4) return element(array, {plane.batch, head_of(array, plane), row, col});
  return element(array, {row, col});
}

// [n] or [b, n] as a list.
std::vector<int64_t> list(const Array& array, const Plane& plane) {
  const int64_t n = array.view.shape[array.view.rank - 1];
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(
        static_cast<int64_t>(array.view.rank == 2 ? element(array, {plane.batch, i}) : element(array, {i})));
  }
  return values;
}

// Which stretch between two offsets x lies in; -1 for none.
int64_t stretch(const std::vector<int64_t>& offsets, int64_t x) {
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i] <= x && x < offsets[i + 1]) return static_cast<int64_t>(i);
  }
  return -1;
}

int64_t div_down(int64_t x, int64_t n) {
  return static_cast<int64_t>(std::floor(static_cast<double>(x) / static_cast<double>(n)));
}

bool in_interval(const Array& begin, const Array& end, const Plane& plane, int64_t line, int64_t x) {
  const int rank = begin.view.rank;
  const int64_t n = rank == 1 ? 1 : begin.view.shape[rank - 1];
  for (int64_t i = 0; i < n; ++i) {
    double bounds[2];
    for (int k = 0; k < 2; ++k) {
      const Array& array = k == 0 ? begin : end;
      bounds[k] = rank == 1   ? element(array, {line})
                  : rank == 2 ? element(array, {line, i})
                              : element(array, {plane.batch, head_of(array, plane), line, i});
    }
    if (bounds[0] <= static_cast<double>(x) && static_cast<double>(x) < bounds[1]) return true;
  }
  return false;
}

// The `kernel` positions of x's residue nearest to it by index, shifted inward at the edges.
bool neighbours(int64_t n, int64_t kernel, int64_t dilation, int64_t x, int64_t y) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < n; ++i) {
    if (i % dilation == x % dilation) places.push_back(i);
  }
  const auto self = std::find(places.begin(), places.end(), x) - places.begin();
  int64_t first = self - kernel / 2;
  while (first < 0) ++first;
  while (first + kernel > static_cast<int64_t>(places.size())) --first;
  for (int64_t i = first; i < first + kernel; ++i) {
    if (places[i] == y) return true;
  }
  return false;
}

bool leaf(const LeafArguments& in, const Plane& plane, int64_t q, int64_t kv) {
  const auto position = [&](size_t align) { return in.top_left(align) ? q : q + plane.s_kv - plane.s_q; };
  switch (in.row().kind.op) {
    case Op::full:
      return true;
    case Op::none:
      return false;
    case Op::causal:
      return kv <= position(0);
    case Op::window: {
      const int64_t p = position(2), left = in.integer(0), right = in.integer(1);
      return (left == -1 || p - left <= kv) && (right == -1 || kv <= p + right);
    }
    case Op::keys:
      return in.integer(0) <= kv && kv < in.integer(1);
    case Op::positions:
      return in.integer(0) <= position(2) && position(2) < in.integer(1);
    case Op::prefix:
      return kv < (in.is_number(0) ? in.number(0) : static_cast<int64_t>(element(*in.array(0), {plane.batch})));
    case Op::documents: {
      const std::vector<int64_t> cu = list(*in.array(0), plane);
      const int64_t of_row = stretch(cu, in.given(1) ? q : position(2));
      return of_row >= 0 && of_row == stretch(in.given(1) ? list(*in.array(1), plane) : cu, kv);
    }
    case Op::chunked:
      return div_down(position(1), in.integer(0)) == div_down(kv, in.integer(0));
    case Op::stride:
      return (position(1) - kv) % in.integer(0) == 0;
    case Op::shared_prefix: {
      const int64_t n = in.integer(0), p = position(2);
      std::vector<int64_t> offsets{n};
      for (const int64_t length : list(*in.array(1), plane)) offsets.push_back(offsets.back() + length);
      const int64_t segment = stretch(offsets, p);
      return kv <= p && (kv < n || (segment >= 0 && segment == stretch(offsets, kv)));
    }
    case Op::tree: {
      const std::vector<int64_t> parents = list(*in.array(0), plane);
      const auto n = static_cast<int64_t>(parents.size());
      const int64_t prefix = in.given(1) ? in.integer(1) : plane.s_kv - n, p = position(2);
      if (kv < prefix) return kv <= p;
      if (p - prefix >= n) return false;
      for (int64_t node = p - prefix; node >= 0; node = parents[node]) {
        if (node == kv - prefix) return true;
      }
      return false;
    }
    case Op::blocks:
      return at_plane(*in.array(0), plane, q / in.integer(1), kv / in.integer(2)) != 0;
    case Op::bits:
      return static_cast<int>(at_plane(*in.array(0), plane, q, kv / 8)) >> (kv % 8) & 1;
    case Op::dense:
      return at_plane(*in.array(0), plane, q, kv) != 0;
    case Op::row_intervals:
      return in_interval(*in.array(0), *in.array(1), plane, q, kv);
    case Op::col_intervals:
      return in_interval(*in.array(0), *in.array(1), plane, kv, q);
    case Op::neighborhood: {
      int64_t p = position(3);
      if (p < 0 || p >= plane.s_kv) return false;
      const std::vector<int64_t> shape =
          in.is_number(0) ? std::vector<int64_t>{in.number(0)} : list(*in.array(0), plane);
      for (size_t axis = shape.size(); axis-- > 0;) {
        const int64_t kernel = in.is_number(1) ? in.number(1) : list(*in.array(1), plane)[axis];
        const int64_t dilation = in.is_number(2) ? in.number(2) : list(*in.array(2), plane)[axis];
        if (!neighbours(shape[axis], kernel, dilation, p % shape[axis], kv % shape[axis])) return false;
        p /= shape[axis];
        kv /= shape[axis];
      }
      return true;
    }
    case Op::block_diffusion: {
      const int64_t seq = in.integer(0), block = in.integer(1), p = position(2);
      if (p < 0 || p >= 2 * seq) return false;
      const bool noisy_row = p < seq, noisy_key = kv < seq;
      const int64_t block_q = p % seq / block, block_kv = kv % seq / block;
      if (noisy_row && noisy_key) return block_q == block_kv;
      if (noisy_row) return block_q > block_kv;
      return !noisy_key && block_q >= block_kv;
    }
    case Op::threshold:
      return at_plane(*in.array(0), plane, q, kv) >= in.real(1);
    default:
      return false;
  }
}

using Stack = std::vector<bool>;

// The window largest of the row's candidates, by a sort of them all; the row last asked for is remembered, as pairs of
// a row come one after the other.
bool among_largest(const Mask& mask, size_t at, const LeafArguments& in, const Plane& plane, int64_t q, int64_t kv) {
  struct Row {
    Mask mask;
    Plane plane;
    int64_t q;
    std::map<size_t, std::vector<bool>> kept;  // of each instruction
  };
  static thread_local Row row{{}, {-1, -1, -1, -1, -1, -1}, -1, {}};
  if (&row.mask.program() != &mask.program() || !(row.plane == plane) || row.q != q) row = {mask, plane, q, {}};
  if (const auto found = row.kept.find(at); found != row.kept.end()) return found->second[kv];
  const ProgramTree tree = tree_of(mask.program());
  std::vector<std::pair<double, int64_t>> candidates;
  for (int64_t key = 0; key < plane.s_kv; ++key) {
    if (!tree.operands(at).empty() && !keep_at(mask, tree.operands(at)[0], plane, q, key)) continue;
    const double bias = at_plane(*in.array(0), plane, q, key);
    if (bias > -INFINITY) candidates.emplace_back(-bias, key);  // neither -inf nor NaN
  }
  std::sort(candidates.begin(), candidates.end());  // -0 and 0 compare equal: the lower key first
  std::vector<bool> kept(static_cast<size_t>(plane.s_kv), false);
  for (int64_t i = 0; i < std::min<int64_t>(in.integer(1), static_cast<int64_t>(candidates.size())); ++i)
    kept[candidates[i].second] = true;
  return (row.kept[at] = kept)[kv];
}

// The value of one instruction, its operands' from those before it.
bool keep_at(const Mask& mask, size_t last, const Plane& plane, int64_t q, int64_t kv) {
  const MaskProgram& program = mask.program();
  Stack stack;
  for (size_t i = 0; i <= last; ++i) {
    const Instruction& instruction = program.code[i];
    if (instruction.op == Op::topk) {
      const LeafArguments in(*find_row(instruction.op), program.ints.data() + instruction.int_begin,
                             program.arrays.data() + instruction.array_begin);
      stack.resize(stack.size() - instruction.arity);
      stack.push_back(among_largest(mask, i, in, plane, q, kv));
      continue;
    }
    if (!is_operator(instruction.op)) {
      stack.push_back(leaf(LeafArguments(*find_row(instruction.op), program.ints.data() + instruction.int_begin,
                                         program.arrays.data() + instruction.array_begin),
                           plane, q, kv));
      continue;
    }
    const Stack operands(stack.end() - instruction.arity, stack.end());
    stack.resize(stack.size() - instruction.arity);
    switch (instruction.op) {
      case Op::op_and:
        stack.push_back(std::count(operands.begin(), operands.end(), false) == 0);
        break;
      case Op::op_or:
        stack.push_back(std::count(operands.begin(), operands.end(), true) > 0);
        break;
      case Op::op_not:
        stack.push_back(!operands[0]);
        break;
      case Op::per_batch:
        stack.push_back(operands[plane.batch]);
        break;
      default: {
        const auto count = static_cast<int64_t>(operands.size());
        stack.push_back(operands[count == 1           ? 0
                                 : count == plane.h_q ? plane.head
                                                      : plane.head / (plane.h_q / plane.h_kv)]);
      }
    }
  }
  return stack.back();
}

}  // namespace

bool keep(const Mask& mask, const Plane& plane, int64_t q, int64_t kv) {
  return keep_at(mask, mask.program().code.size() - 1, plane, q, kv);
}

}  // namespace anymask::oracle
