// A mask as text: arguments that equal their defaults left out, brackets only where the grammar needs them.
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "mask/build.h"

namespace anymask {
namespace {

std::string real_text(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0 && std::signbit(value)) return "-0.0";  // "-0" would read back as an integer, which has no sign at 0
  char buffer[40];
  return std::string(
      buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);  // the shortest that reads back the same
}

std::string array_text(const Array& array) {
  if (!prints_inline(array)) return "@" + array.name;
  std::string text = "[";
  for (int64_t i = 0; i < array.view.shape[0]; ++i) text += (i > 0 ? ", " : "") + std::to_string(array.integer(i));
  return text + "]";
}

// Empty where the argument was not given, or equals its default.
std::string argument_text(const LeafArguments& arguments, size_t i) {
  const ArgumentSpec& spec = arguments.row().kind.arguments[i];
  if (!arguments.given(i)) return "";
  switch (spec.type) {
    case ArgumentType::integer:
      return std::to_string(arguments.integer(i));
    case ArgumentType::real:
      return real_text(arguments.real(i));
    case ArgumentType::align:
      return arguments.top_left(i) ? "\"top_left\"" : "";
    case ArgumentType::array:
    case ArgumentType::integers:
      break;
    case ArgumentType::masks:
    case ArgumentType::mask:
      return "";
  }
  if (!arguments.is_number(i)) return array_text(*arguments.array(i));
  const std::string text = std::to_string(arguments.number(i));
  return text == spec.default_text ? "" : text;
}

// A leaf, cut where its operand is written; with none, the second half is empty.
std::array<std::string, 2> leaf_text(const LeafArguments& arguments, bool operand) {
  const MaskKind& kind = arguments.row().kind;
  std::string text, before;
  bool by_position = true;  // as long as nothing was left out
  for (size_t i = 0; i < kind.arguments.size(); ++i) {
    const bool here = operand && kind.arguments[i].type == ArgumentType::mask;
    const std::string argument = argument_text(arguments, i);
    by_position &= here || (!argument.empty() && kind.arguments[i].type != ArgumentType::align);
    if (argument.empty() && !here) continue;
    if (!text.empty() || !before.empty()) text += ", ";
    if (!by_position) text += cat(kind.arguments[i].name, "=");
    text += argument;
    if (here) before = cat(kind.name, "(", std::exchange(text, ""));
  }
  if (operand) return {before, text + ")"};
  return {text.empty() ? std::string(kind.name) : cat(kind.name, "(", text, ")"), ""};
}

// How tightly an operator binds; leaves, lists and complements are never bracketed inside others.
int strength(Op op) { return op == Op::op_or ? 0 : op == Op::op_and ? 1 : 2; }

}  // namespace

std::string Mask::str() const {
  const MaskProgram& program = *program_;
  const ProgramTree tree = tree_of(program);
  struct Frame {
    uint32_t instruction;
    bool bracketed;
    size_t next = 0;
  };
  std::string text;
  std::vector<Frame> frames{{static_cast<uint32_t>(program.code.size() - 1), false}};
  while (!frames.empty()) {
    Frame& frame = frames.back();
    const Instruction& instruction = program.code[frame.instruction];
    const auto operands = tree.operands(frame.instruction);
    const bool lists = instruction.op == Op::per_batch || instruction.op == Op::per_head;
    if (!is_operator(instruction.op)) {
      const auto halves =
          leaf_text(LeafArguments(*find_row(instruction.op), program.ints.data() + instruction.int_begin,
                                  program.arrays.data() + instruction.array_begin),
                    !operands.empty());
      text += halves[frame.next];
      if (frame.next < operands.size()) {
        frames.push_back({operands[frame.next++], false});
      } else {
        frames.pop_back();
      }
      continue;
    }
    if (frame.next == 0) {
      if (frame.bracketed) text += "(";
      if (instruction.op == Op::op_not) text += "~";
      if (lists) text += instruction.op == Op::per_batch ? "per_batch([" : "per_head([";
    } else if (frame.next < operands.size()) {
      text += lists ? ", " : instruction.op == Op::op_and ? " & " : " | ";
    }
    if (frame.next == operands.size()) {
      if (lists) text += "])";
      if (frame.bracketed) text += ")";
      frames.pop_back();
      continue;
    }
    const uint32_t operand = operands[frame.next++];
    const bool bracketed = !lists && strength(program.code[operand].op) < strength(instruction.op);
    frames.push_back({operand, bracketed});
  }
  return text;
}

}  // namespace anymask
