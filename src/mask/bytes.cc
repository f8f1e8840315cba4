// The serialised form, version 1. Little-endian, no padding:
//
//   "AMSK"  u32 version
//   u64 instructions, then for each: u16 op, u32 arity
//   u64 ints, then i64 each             the leaves' ints in the order of the code; how many a leaf takes is its kind's
//   to know u64 arrays, then for each: u16 length and bytes of the name, u8 type, u8 rank, i64 extents, elements
//   row-major u64 references, then u32 each       which array each array argument is, in the order of the code
//
// Arrays that are one and the same in memory are stored once. Reading trusts nothing: sizes are held against the bytes
// that are left before anything is allocated, and every rule of a well-formed program is checked.
#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "mask/build.h"

namespace anymask {
namespace {

constexpr char magic[4] = {'A', 'M', 'S', 'K'};
constexpr uint32_t version = 1;

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
}

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <class T>
  T take(const char* what) {
    need(sizeof(T), what);
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += sizeof(T);
    return static_cast<T>(value);
  }
  // A count of things that take at least `each` bytes: no more than the rest can hold.
  size_t count(size_t each, const char* what) {
    const auto value = take<uint64_t>(what);
    if (value > left() / each) corrupt(cat("claims ", value, " ", what, " in ", left(), " bytes"));
    return static_cast<size_t>(value);
  }
  const uint8_t* raw(size_t size, const char* what) {
    need(size, what);
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  size_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void corrupt(const std::string& what) const {
    fail_invalid("mask bytes: ", what, " (before byte ", at_,
                 "); expected what to_bytes wrote: the data is corrupt or incomplete");
  }

 private:
  void need(size_t size, const char* what) const {
    if (size > left()) corrupt(cat("end inside ", what));
  }
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

void put_array(std::vector<uint8_t>& out, const Array& array) {
  const Array contiguous = Array::own(array.view);
  const TensorView& view = contiguous.view;
  put(out, static_cast<uint16_t>(array.name.size()));
  out.insert(out.end(), array.name.begin(), array.name.end());
  put(out, static_cast<uint8_t>(view.dtype));
  put(out, static_cast<uint8_t>(view.rank));
  for (int i = 0; i < view.rank; ++i) put(out, view.shape[i]);
  const auto* elements = static_cast<const uint8_t*>(view.data);
  if (view.numel() > 0) out.insert(out.end(), elements, elements + view.numel() * size_of(view.dtype));
}

Array take_array(Reader& in) {
  const auto length = in.take<uint16_t>("a name's length");
  const auto* letters = in.raw(length, "an array's name");
  std::string name(letters, letters + length);
  if (!name.empty() && !is_identifier(name)) in.corrupt("name an array by what is no name");
  const auto type = in.take<uint8_t>("an array's type");
  if (type > static_cast<uint8_t>(DType::boolean)) in.corrupt(cat("give an array type ", int{type}));
  TensorView view;
  view.dtype = static_cast<DType>(type);
  view.rank = in.take<uint8_t>("an array's rank");
  if (view.rank < 1 || view.rank > 4) in.corrupt(cat("give an array rank ", view.rank));
  bool no_elements = false;
  for (int i = 0; i < view.rank; ++i) {
    view.shape[i] = in.take<int64_t>("an array's shape");
    if (view.shape[i] < 0) in.corrupt("give an array a negative extent");
    no_elements |= view.shape[i] == 0;
  }
  // Held against the rest of the bytes extent by extent, so that no product overflows; an array without elements has no
  // bytes.
  uint64_t bytes = static_cast<uint64_t>(size_of(view.dtype));
  for (int i = 0; i < view.rank; ++i) {
    const auto extent = static_cast<uint64_t>(view.shape[i]);
    if (extent > (no_elements ? static_cast<uint64_t>(max_length) : in.left() / bytes))
      in.corrupt("give an array more elements than there are bytes");
    if (!no_elements) bytes *= extent;
  }
  if (no_elements) bytes = 0;
  int64_t stride = 1;
  for (int i = view.rank; i-- > 0;) {
    view.stride[i] = stride;
    if (!no_elements) stride *= view.shape[i];
  }
  const uint8_t* elements = in.raw(static_cast<size_t>(bytes), "an array's elements");
  view.data = const_cast<uint8_t*>(elements);  // only copied from
  return Array::own(view, std::move(name));
}

}  // namespace

std::vector<uint8_t> Mask::to_bytes() const {
  const MaskProgram& program = *program_;
  std::vector<uint8_t> out(magic, magic + 4);
  put(out, version);
  put(out, static_cast<uint64_t>(program.code.size()));
  for (const Instruction& instruction : program.code) {
    put(out, static_cast<uint16_t>(instruction.op));
    put(out, instruction.arity);
  }
  put(out, static_cast<uint64_t>(program.ints.size()));
  for (const int64_t value : program.ints) put(out, value);

  std::vector<size_t> stored;
  std::vector<uint32_t> references;
  std::map<
      std::tuple<const void*, std::string, DType, int, std::array<int64_t, max_rank>, std::array<int64_t, max_rank>>,
      uint32_t>
      known;
  for (size_t i = 0; i < program.arrays.size(); ++i) {
    const TensorView& view = program.arrays[i].view;
    const auto [found, inserted] =
        known.try_emplace({view.data, program.arrays[i].name, view.dtype, view.rank, view.shape, view.stride},
                          static_cast<uint32_t>(stored.size()));
    if (inserted) stored.push_back(i);
    references.push_back(found->second);
  }
  put(out, static_cast<uint64_t>(stored.size()));
  for (const size_t i : stored) put_array(out, program.arrays[i]);
  put(out, static_cast<uint64_t>(references.size()));
  for (const uint32_t reference : references) put(out, reference);
  return out;
}

Mask Mask::from_bytes(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  if (bytes.size() < 8 || std::memcmp(in.raw(4, "the magic"), magic, 4) != 0) {
    fail_invalid("mask bytes: do not begin with AMSK; expected what to_bytes wrote: pass a serialised mask");
  }
  if (const auto found = in.take<uint32_t>("the version"); found != version) {
    fail_invalid("mask bytes: have version ", found, "; expected ", version,
                 ": write them with the version that reads them");
  }

  MaskProgram program;
  struct Value {  // on the stack of operands
    Op op;
    uint32_t depth;
  };
  std::vector<Value> stack;
  const size_t instructions = in.count(6, "instructions");
  program.code.reserve(instructions);
  for (size_t i = 0; i < instructions; ++i) {
    Instruction instruction;
    instruction.op = static_cast<Op>(in.take<uint16_t>("an instruction"));
    instruction.arity = in.take<uint32_t>("an instruction");
    const Op op = instruction.op;
    uint32_t depth = 1;
    if (is_operator(op)) {
      const bool joins = op == Op::op_and || op == Op::op_or, lists = op == Op::per_batch || op == Op::per_head;
      if (!joins && !lists && op != Op::op_not) in.corrupt(cat("hold the unknown operator ", static_cast<int>(op)));
      if (op == Op::op_not ? instruction.arity != 1 : instruction.arity < (joins ? 2u : 1u))
        in.corrupt("give an operator a wrong number of operands");
      if (instruction.arity > stack.size()) in.corrupt("lack operands");
      for (size_t k = stack.size() - instruction.arity; k < stack.size(); ++k) {
        if (joins && stack[k].op == op) in.corrupt("nest an operator in itself");
      }
    } else if (find_row(op) == nullptr || instruction.arity > (takes_mask(find_row(op)->kind) ? 1u : 0u)) {
      in.corrupt(cat("hold the unknown mask ", static_cast<int>(op)));
    } else if (instruction.arity > stack.size()) {
      in.corrupt("lack operands");
    }
    for (size_t k = stack.size() - instruction.arity; k < stack.size(); ++k)
      depth = std::max(depth, stack[k].depth + 1);
    stack.resize(stack.size() - instruction.arity);
    if (depth > max_depth) in.corrupt(cat("nest more than ", max_depth, " levels"));
    stack.push_back({op, depth});
    program.code.push_back(instruction);
  }
  if (stack.size() != 1) in.corrupt("leave operands over");

  const size_t ints = in.count(8, "integers");
  program.ints.reserve(ints);
  for (size_t i = 0; i < ints; ++i) program.ints.push_back(in.take<int64_t>("an integer"));

  // Where each leaf's ints and arrays begin follows from the kinds.
  size_t next_int = 0, next_array = 0;
  for (Instruction& instruction : program.code) {
    instruction.int_begin = static_cast<uint32_t>(next_int);
    instruction.array_begin = static_cast<uint32_t>(next_array);
    if (is_operator(instruction.op)) continue;
    const KindRow& row = *find_row(instruction.op);
    const size_t count = int_count(row);
    size_t arrays = 0;
    if (count > ints - next_int || !well_formed(row, std::span(program.ints).subspan(next_int, count), arrays)) {
      in.corrupt(cat("hold wrong arguments of `", row.kind.name, "`"));
    }
    instruction.int_count = static_cast<uint32_t>(count);
    instruction.array_count = static_cast<uint32_t>(arrays);
    next_int += count;
    next_array += arrays;
  }
  if (next_int != ints) in.corrupt("hold integers that no mask takes");

  std::vector<Array> stored;
  for (size_t i = in.count(12, "arrays"); i-- > 0;) stored.push_back(take_array(in));
  const size_t references = in.count(4, "references to arrays");
  if (references != next_array) in.corrupt("refer to a wrong number of arrays");
  std::vector<bool> used(stored.size(), false);
  for (size_t i = 0; i < references; ++i) {
    const auto index = in.take<uint32_t>("a reference to an array");
    if (index >= stored.size()) in.corrupt("refer to an array that is not there");
    used[index] = true;
    program.arrays.push_back(stored[index]);
  }
  for (const bool is_used : used) {
    if (!is_used) in.corrupt("hold an array that nothing refers to");
  }
  if (in.left() != 0) in.corrupt(cat("have ", in.left(), " bytes behind the end"));
  for (const Instruction& instruction : program.code) {
    if (is_operator(instruction.op)) continue;
    check_leaf(LeafArguments(*find_row(instruction.op), program.ints.data() + instruction.int_begin,
                             program.arrays.data() + instruction.array_begin));
  }
  return Mask(std::move(program));
}

}  // namespace anymask
