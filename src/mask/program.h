// A mask as data: a postfix list of instructions, integer parameters, references to arrays.
// This is what is printed, compared, hashed, serialised and bound to lengths. It carries no sequence length.
#pragma once

#include <cstdint>
#include <vector>

#include "core/array.h"

namespace anymask {

// The numbers are the serialised form: never renumber, only append.
enum class Op : uint16_t {
  full = 0,
  none = 1,
  causal = 2,
  window = 3,
  keys = 4,
  positions = 5,
  prefix = 6,
  documents = 7,
  chunked = 8,
  stride = 9,
  shared_prefix = 10,
  tree = 11,
  blocks = 12,
  bits = 13,
  dense = 14,
  row_intervals = 15,
  col_intervals = 16,
  neighborhood = 17,
  block_diffusion = 18,
  threshold = 19,
  topk = 20,
  op_and = 1000,
  op_or = 1001,
  op_not = 1002,
  per_batch = 1003,
  per_head = 1004,
};

struct Instruction {
  Op op = Op::full;
  uint32_t arity = 0;                         // operands taken from the stack (leaves: 0, or the masks they are given)
  uint32_t int_begin = 0, int_count = 0;      // into ints
  uint32_t array_begin = 0, array_count = 0;  // into arrays
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

struct MaskProgram {
  std::vector<Instruction> code;  // operands in the order the user wrote them
  std::vector<int64_t> ints;      // a float parameter is stored as the bits of its double
  std::vector<Array> arrays;
};

}  // namespace anymask
