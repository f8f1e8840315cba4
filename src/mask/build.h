// Making and reading programs: what the expression operators, the grammar, the serialised form and binding share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mask/kind.h"
#include "mask/program.h"

namespace anymask {

// Limits of what is taken from outside, so that no input exhausts the machine. Both refused by an error that names
// them.
inline constexpr uint32_t max_depth = 10'000;       // levels of operators, brackets
inline constexpr size_t max_text = 1'000'000;       // characters
inline constexpr int64_t max_inline_elements = 16;  // longer lists print as @name

bool is_operator(Op op);

// Operands of each instruction, by their index in the code.
struct ProgramTree {
  std::vector<uint32_t> child_begin;  // [code + 1]: operands of i are children[child_begin[i] .. child_begin[i + 1])
  std::vector<uint32_t> children;
  uint32_t depth = 0;  // levels: 1 for a leaf
  std::span<const uint32_t> operands(size_t i) const {
    return {children.data() + child_begin[i], children.data() + child_begin[i + 1]};
  }
};
ProgramTree tree_of(const MaskProgram& program);

// Appends the first `instructions` of a program, its ints and arrays.
void append_program(MaskProgram& to, const MaskProgram& from, size_t instructions);
Instruction operator_instruction(const MaskProgram& program, Op op, uint32_t arity);

// Appends a leaf, or throws: number, names, types and ranges of the arguments, as far as they go without lengths.
// `operand`: where the leaf's mask stands among the arguments, for one that ends the program already; its value is not
// looked at.
inline constexpr size_t no_operand = ~size_t{0};
void append_leaf(MaskProgram& program, const MaskKind& kind, std::span<const MaskArgument> arguments,
                 size_t operand = no_operand);
const MaskKind& require_kind(std::string_view name);
size_t require_argument(const MaskKind& kind, std::string_view name);
bool takes_mask(const MaskKind& kind);  // as its operand

// Names that text can refer to: different arrays get different names, long ones without a name array0, array1, ...
void name_arrays(MaskProgram& program);
bool prints_inline(const Array& array);  // short, of integers, and without a name
bool is_identifier(std::string_view name);

}  // namespace anymask
