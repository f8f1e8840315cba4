#include "mask/build.h"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "mask/nearest.h"

namespace anymask {

bool is_operator(Op op) { return static_cast<uint16_t>(op) >= static_cast<uint16_t>(Op::op_and); }

ProgramTree tree_of(const MaskProgram& program) {
  ProgramTree tree;
  const size_t n = program.code.size();
  tree.child_begin.resize(n + 1, 0);
  std::vector<uint32_t> stack, depth(n, 1);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t arity = program.code[i].arity;
    const size_t first = stack.size() - arity;
    for (size_t k = first; k < stack.size(); ++k) {
      tree.children.push_back(stack[k]);
      depth[i] = std::max(depth[i], depth[stack[k]] + 1);
    }
    stack.resize(first);
    stack.push_back(static_cast<uint32_t>(i));
    tree.child_begin[i + 1] = static_cast<uint32_t>(tree.children.size());
  }
  tree.depth = n == 0 ? 0 : depth[n - 1];
  return tree;
}

void append_program(MaskProgram& to, const MaskProgram& from, size_t instructions) {
  const auto ints = static_cast<uint32_t>(to.ints.size()), arrays = static_cast<uint32_t>(to.arrays.size());
  for (size_t i = 0; i < instructions; ++i) {
    Instruction instruction = from.code[i];
    instruction.int_begin += ints;
    instruction.array_begin += arrays;
    to.code.push_back(instruction);
  }
  to.ints.insert(to.ints.end(), from.ints.begin(), from.ints.end());
  to.arrays.insert(to.arrays.end(), from.arrays.begin(), from.arrays.end());
}

Instruction operator_instruction(const MaskProgram& program, Op op, uint32_t arity) {
  return {op, arity, static_cast<uint32_t>(program.ints.size()), 0, static_cast<uint32_t>(program.arrays.size()), 0};
}

bool prints_inline(const Array& array) {
  return array.name.empty() && !array.on_device() && array.view.rank == 1 && is_integer(array.view.dtype) &&
         array.view.shape[0] <= max_inline_elements;
}

namespace {

bool same_memory(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.rank == b.rank && a.device == b.device &&
         std::equal(a.shape.begin(), a.shape.begin() + a.rank, b.shape.begin()) &&
         std::equal(a.stride.begin(), a.stride.begin() + a.rank, b.stride.begin());
}

}  // namespace

void name_arrays(MaskProgram& program) {
  std::unordered_map<std::string, size_t> first;  // the array that has the name
  const auto fresh = [&](const std::string& stem, size_t number) {
    while (first.contains(stem + std::to_string(number))) ++number;
    return stem + std::to_string(number);
  };
  for (size_t i = 0; i < program.arrays.size(); ++i) {
    Array& array = program.arrays[i];
    if (array.name.empty()) continue;
    const auto [found, inserted] = first.try_emplace(array.name, i);
    if (inserted || same_memory(program.arrays[found->second].view, array.view)) continue;
    // Two arrays of one name: the later one is called name_2, or the first such name that is free or already means it.
    for (size_t number = 2;; ++number) {
      const std::string name = array.name + "_" + std::to_string(number);
      const auto [other, added] = first.try_emplace(name, i);
      if (added || same_memory(program.arrays[other->second].view, array.view)) {
        array.name = name;
        break;
      }
    }
  }
  size_t number = 0;
  for (size_t i = 0; i < program.arrays.size(); ++i) {
    Array& array = program.arrays[i];
    if (!array.name.empty() || prints_inline(array)) continue;
    array.name = fresh("array", number);
    number = std::stoull(array.name.substr(5)) + 1;
    first.emplace(array.name, i);
  }
}

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c) || c == '.'; });
}

namespace {

const char* type_text(const ArgumentSpec& spec) {
  switch (spec.type) {
    case ArgumentType::integer:
      return "an integer";
    case ArgumentType::real:
      return "a number";
    case ArgumentType::integers:
      return spec.scalar_too ? "an integer, a list of integers or an array" : "a list of integers or an array";
    case ArgumentType::array:
      return "an array";
    case ArgumentType::align:
      return "bottom_right or top_left";
    case ArgumentType::masks:
      return "a list of masks";
    case ArgumentType::mask:
      return "a mask";
  }
  return "";
}

const char* type_text(const MaskArgument& argument) {
  static constexpr const char* names[] = {"an integer", "a real number", "a list", "an array", "a word", "a mask"};
  return names[argument.value.index()];
}

std::string signature(const MaskKind& kind) {
  std::string text = cat(kind.name, "(");
  for (const ArgumentSpec& spec : kind.arguments)
    text += cat(&spec == kind.arguments.data() ? "" : ", ", spec.name, spec.required ? "" : "?");
  return text + ")";
}

[[noreturn]] void mismatch(const MaskKind& kind, const ArgumentSpec& spec, const MaskArgument& argument) {
  fail_invalid(kind.name, ": ", spec.name, " is ", type_text(argument), "; expected ", type_text(spec), ": ", spec.doc);
}

// Appends the ints (and the array) of one argument; null: not given.
void encode(MaskProgram& program, const MaskKind& kind, const ArgumentSpec& spec, const MaskArgument* argument) {
  const auto add_array = [&](Array array) {
    if (!array.name.empty() && !is_identifier(array.name)) {
      fail_invalid(kind.name, ": ", spec.name, " is an array named `", array.name.substr(0, 64),
                   "`; expected letters, digits, _ and . after a letter: rename it, so that text can refer to it");
    }
    program.arrays.push_back(std::move(array));
  };
  const auto integer_of = [&](int64_t value) {
    if (value == not_given)
      fail_invalid(kind.name, ": ", spec.name, " is ", value, "; expected a number above it: use a smaller magnitude");
    return value;
  };
  if (argument == nullptr && spec.required) {
    fail_invalid(kind.name, ": ", spec.name, " is missing; expected ", signature(kind), ": give ", type_text(spec),
                 ", ", spec.doc);
  }
  switch (spec.type) {
    case ArgumentType::integer:
      if (argument == nullptr) {
        program.ints.push_back(not_given);
      } else if (const auto* value = std::get_if<int64_t>(&argument->value)) {
        program.ints.push_back(integer_of(*value));
      } else {
        mismatch(kind, spec, *argument);
      }
      break;
    case ArgumentType::real: {
      double value = 0;
      if (const auto* real = std::get_if<double>(&argument->value)) {
        value = *real;
      } else if (const auto* integer = std::get_if<int64_t>(&argument->value)) {
        value = static_cast<double>(*integer);
      } else {
        mismatch(kind, spec, *argument);
      }
      program.ints.push_back(std::bit_cast<int64_t>(value));
      break;
    }
    case ArgumentType::integers:
      if (argument == nullptr) {
        program.ints.push_back(spec.default_text[0] != '\0' ? 2 : 0);
        program.ints.push_back(spec.default_text[0] != '\0' ? std::stoll(spec.default_text) : 0);
      } else if (const auto* value = std::get_if<int64_t>(&argument->value); value && spec.scalar_too) {
        program.ints.push_back(2);
        program.ints.push_back(*value);
      } else if (const auto* list = std::get_if<std::vector<int64_t>>(&argument->value)) {
        program.ints.insert(program.ints.end(), {1, 0});
        add_array(Array::own(*list));
      } else if (const auto* array = std::get_if<Array>(&argument->value)) {
        program.ints.insert(program.ints.end(), {1, 0});
        add_array(*array);
      } else {
        mismatch(kind, spec, *argument);
      }
      break;
    case ArgumentType::array:
      program.ints.push_back(argument != nullptr);
      if (argument == nullptr) break;
      if (const auto* list = std::get_if<std::vector<int64_t>>(&argument->value)) {
        add_array(Array::own(*list));
      } else if (const auto* array = std::get_if<Array>(&argument->value)) {
        add_array(*array);
      } else {
        mismatch(kind, spec, *argument);
      }
      break;
    case ArgumentType::align: {
      program.ints.push_back(0);
      if (argument == nullptr) break;
      const auto* word = std::get_if<std::string>(&argument->value);
      if (word == nullptr) mismatch(kind, spec, *argument);
      if (*word != "bottom_right" && *word != "top_left") {
        fail_invalid(kind.name, ": align is `", word->substr(0, 64),
                     "`; expected bottom_right (p = q + s_kv - s_q) or top_left (p = q): use one of them");
      }
      program.ints.back() = *word == "top_left";
      break;
    }
    case ArgumentType::masks:
    case ArgumentType::mask:
      break;  // operators are not leaves, and a leaf's operand is in the code
  }
}

}  // namespace

const MaskKind& require_kind(std::string_view name) {
  if (const MaskKind* kind = find_kind(name)) return *kind;
  const std::string nearest = nearest_kind(name);
  fail_invalid(
      "mask: no mask is named `", std::string(name.substr(0, 64)), "`",
      nearest.empty() ? std::string("; `anymask masks` lists them all") : cat("; did you mean `", nearest, "`?"));
}

size_t require_argument(const MaskKind& kind, std::string_view name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kind.arguments.size(); ++i) {
    if (name == kind.arguments[i].name) return i;
    names.emplace_back(kind.arguments[i].name);
  }
  const std::string nearest = nearest_name(name, names);
  fail_invalid(kind.name, ": no argument is named `", std::string(name.substr(0, 64)), "`",
               nearest.empty() ? std::string() : cat("; did you mean `", nearest, "`?"),
               names.empty() ? " It takes none" : cat("; expected ", signature(kind)));
}

bool takes_mask(const MaskKind& kind) {
  return std::any_of(kind.arguments.begin(), kind.arguments.end(),
                     [](const ArgumentSpec& spec) { return spec.type == ArgumentType::mask; });
}

void append_leaf(MaskProgram& program, const MaskKind& kind, std::span<const MaskArgument> arguments, size_t operand) {
  std::vector<const MaskArgument*> given(kind.arguments.size(), nullptr);
  bool named = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    size_t place = i;
    if (!arguments[i].name.empty()) {
      named = true;
      place = require_argument(kind, arguments[i].name);
    } else if (named) {
      fail_invalid(kind.name, ": argument ", i + 1, " has no name but follows one that has; expected ", signature(kind),
                   ": name it too");
    }
    if (place >= given.size()) {
      fail_invalid(kind.name, ": got ", arguments.size(), " arguments; expected ", signature(kind),
                   ": leave the others out");
    }
    if (given[place] != nullptr)
      fail_invalid(kind.name, ": ", kind.arguments[place].name, " is given twice; expected it once: leave one out");
    given[place] = &arguments[i];
  }
  uint32_t operands = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    if (kind.arguments[i].type != ArgumentType::mask || given[i] == nullptr) continue;
    ++operands;
    if (operand < arguments.size() && given[i] == &arguments[operand]) continue;
    const auto* mask = std::get_if<Mask>(&given[i]->value);
    if (mask == nullptr) mismatch(kind, kind.arguments[i], *given[i]);
    append_program(program, mask->program(), mask->program().code.size());
  }
  Instruction leaf = operator_instruction(program, kind.op, operands);
  for (size_t i = 0; i < given.size(); ++i) encode(program, kind, kind.arguments[i], given[i]);
  leaf.int_count = static_cast<uint32_t>(program.ints.size()) - leaf.int_begin;
  leaf.array_count = static_cast<uint32_t>(program.arrays.size()) - leaf.array_begin;
  program.code.push_back(leaf);
  check_leaf(LeafArguments(*find_row(kind.op), program.ints.data() + leaf.int_begin,
                           program.arrays.data() + leaf.array_begin));
}

}  // namespace anymask
