// The text grammar, by a stack of open operators and brackets: no recursion, so depth is a count and not a risk.
//
//   mask     = and { "|" and }         and  = not { "&" not }         not = "~" not | primary
//   primary  = "(" mask ")" | kind [ "(" [ argument { "," argument } ] ")" ]
//            | ( "per_batch" | "per_head" ) "(" "[" mask { "," mask } "]" ")"
//   argument = [ name "=" ] ( mask, where the kind takes one | number | "[" [ integer { "," integer } ] "]" | "@" name
//   | word | quoted word )
#include <charconv>
#include <cmath>

#include "mask/build.h"
#include "mask/nearest.h"

namespace anymask {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Parser {
 public:
  Parser(std::string_view text, std::span<const Array> arrays) : text_(text), arrays_(arrays) {}

  MaskProgram parse() {
    if (text_.size() > max_text) {
      fail_invalid("mask text has ", text_.size(), " characters; expected at most ", max_text,
                   ": build it from parts, or load it from bytes");
    }
    for (;;) {
      operand();
      if (!after_operand()) return std::move(program_);
    }
  }

 private:
  // What is open: an operator that waits for its last operand, or a bracket that waits for its end.
  enum class Open : uint8_t { op_not, op_and, op_or, bracket, list, leaf };
  struct Item {
    Open open;
    Op op;           // of op_* and of list
    uint32_t count;  // operands so far
    size_t at;       // where it stands in the text
  };
  // A leaf whose arguments are being read; it waits on the stack while one of them, a mask, is.
  struct Leaf {
    const MaskKind* kind;
    size_t begin, bracket;
    std::vector<MaskArgument> arguments;
    size_t operand = no_operand;
  };

  // Runs a check, and points at the text if it fails.
  template <class Check>
  decltype(auto) at(size_t position, Check check) {
    try {
      return check();
    } catch (const Error& error) {
      fail(position, error.what());
    }
  }

  // Prefixes `~` and `(`, up to and with one leaf.
  void operand() {
    for (;;) {
      skip_space();
      const char c = peek();
      if (c == '~' || c == '!') {
        if (c == '!') fail(at_, "unexpected `!`; a complement is written `~`");
        push({Open::op_not, Op::op_not, 0, at_++});
      } else if (c == '(') {
        push({Open::bracket, Op::full, 0, at_++});
      } else if (is_letter(c)) {
        const size_t begin = at_;
        const std::string_view name = identifier();
        const MaskKind& kind = at(begin, [&]() -> const MaskKind& { return require_kind(name); });
        if (!is_operator(kind.op)) {
          if (leaf(kind, begin)) return;
          continue;
        }
        expect('(', cat("`", kind.name, "` takes a list of masks: ", kind.name, "([causal, full])"));
        skip_space();
        const size_t bracket = at_;
        expect('[', cat("`", kind.name, "` takes a list of masks: ", kind.name, "([causal, full])"));
        push({Open::list, kind.op, 0, bracket});
      } else {
        fail(at_, cat("expected a mask", c == '\0' ? ", got the end of the text" : cat(", got `", shown(c), "`")));
      }
    }
  }

  // Operators and ends of brackets, up to where the next operand begins. False at the end of the text.
  bool after_operand() {
    for (;;) {
      while (!stack_.empty() && stack_.back().open == Open::op_not) {
        emit(Op::op_not, 1);
        stack_.pop_back();
      }
      skip_space();
      const char c = peek();
      switch (c) {
        case '&':
          if (top_is(Open::op_and)) {
            stack_.back().count += absorb(Op::op_and);
          } else {
            push({Open::op_and, Op::op_and, absorb(Op::op_and), at_});
          }
          if (text_.substr(at_).starts_with("&&")) fail(at_, "unexpected `&&`; an intersection is written `&`");
          ++at_;
          return true;
        case '|':
          close(Open::op_and);
          if (top_is(Open::op_or)) {
            stack_.back().count += absorb(Op::op_or);
          } else {
            push({Open::op_or, Op::op_or, absorb(Op::op_or), at_});
          }
          if (text_.substr(at_).starts_with("||")) fail(at_, "unexpected `||`; a union is written `|`");
          ++at_;
          return true;
        case ')':
          close_all();
          if (top_is(Open::leaf)) {
            if (resume_leaf()) break;
            return true;
          }
          if (!top_is(Open::bracket))
            fail(at_, top_is(Open::list) ? "unexpected `)`; the list is still open: expected `,` or `]`"
                                         : "unexpected `)`; no bracket is open");
          stack_.pop_back();
          ++at_;
          break;  // the bracket is an operand
        case ',':
          close_all();
          if (top_is(Open::leaf)) {
            if (resume_leaf()) break;
            return true;
          }
          if (!top_is(Open::list)) fail(at_, "unexpected `,`; masks are joined by `&` and `|`");
          ++stack_.back().count;
          ++at_;
          return true;
        case ']': {
          close_all();
          if (!top_is(Open::list))
            fail(at_, top_is(Open::bracket) || top_is(Open::leaf) ? "unexpected `]`; expected `)` first"
                                                                  : "unexpected `]`; no list is open");
          ++at_;
          skip_space();
          expect(')', "expected `)` after the list of masks");
          emit(stack_.back().op, stack_.back().count + 1);
          stack_.pop_back();
          break;  // the list is an operand
        }
        case '\0':
          if (at_ < text_.size()) fail(at_, "unexpected character 0");
          close_all();
          if (!stack_.empty()) {
            fail(stack_.back().at, stack_.back().open == Open::list ? "this `[` is never closed; expected `])`"
                                                                    : "this `(` is never closed; expected `)`");
          }
          return false;
        default:
          fail(at_, cat("unexpected `", shown(c), "`; expected `&`, `|` or the end of the text"));
      }
    }
  }

  bool top_is(Open open) const { return !stack_.empty() && stack_.back().open == open; }

  void push(Item item) {
    if (stack_.size() >= max_depth)
      fail(item.at, cat("nested more than ", max_depth, " levels deep; expected fewer: split the mask"));
    stack_.push_back(item);
  }

  // The last operand joins a list of `op`: as one operand, or, being such a list itself, as its own operands.
  uint32_t absorb(Op op) {
    const Instruction& last = program_.code.back();
    if (last.op != op) return 1;
    const uint32_t arity = last.arity;
    program_.code.pop_back();
    return arity;
  }

  void close(Open open) {
    if (!top_is(open)) return;
    const Op op = stack_.back().op;
    const uint32_t arity = stack_.back().count + absorb(op);
    emit(op, arity);
    stack_.pop_back();
  }
  void close_all() {
    close(Open::op_and);
    close(Open::op_or);
  }

  void emit(Op op, uint32_t arity) { program_.code.push_back(operator_instruction(program_, op, arity)); }

  // False where an argument is a mask, which comes next.
  bool leaf(const MaskKind& kind, size_t begin) {
    Leaf open{&kind, begin, at_, {}};
    skip_space();
    if (peek() == '(') {
      open.bracket = at_++;
      skip_space();
      return arguments(std::move(open));
    }
    at(begin, [&] { append_leaf(program_, kind, {}); });
    return true;
  }

  // The mask that a leaf was waiting for ends here.
  bool resume_leaf() {
    Leaf open = std::move(leaves_.back());
    leaves_.pop_back();
    stack_.pop_back();
    return arguments(std::move(open));
  }

  // The arguments from here on, up to and with the bracket; false where one of them is a mask, which comes next.
  bool arguments(Leaf open) {
    while (peek() != ')') {
      if (!open.arguments.empty()) {
        expect(',', peek() == '\0' ? "" : "expected `,` or `)` after an argument", open.bracket);
        skip_space();
      }
      if (open_mask(open)) return false;
      open.arguments.push_back(argument(*open.kind, open.bracket));
      skip_space();
    }
    ++at_;
    at(open.begin, [&] { append_leaf(program_, *open.kind, open.arguments, open.operand); });
    return true;
  }

  // Where the next argument is the leaf's mask: its name, if it has one, is read and the leaf put on the stack.
  bool open_mask(Leaf& open) {
    const auto& specs = open.kind->arguments;
    const auto is_mask = [&](size_t i) { return i < specs.size() && specs[i].type == ArgumentType::mask; };
    const size_t begin = at_;
    std::string_view name = identifier();
    skip_space();
    if (name.empty() || peek() != '=') {
      at_ = begin;
      name = "";
      if (!is_mask(open.arguments.size()) || !may_begin_mask(peek())) return false;
    } else {
      const size_t place = at(begin, [&] { return require_argument(*open.kind, name); });
      if (!is_mask(place)) {
        at_ = begin;
        return false;
      }
      ++at_;
    }
    if (open.operand != no_operand)
      at(begin, [&] { fail_invalid(open.kind->name, ": a second mask is given; expected one: join them by & or |"); });
    open.operand = open.arguments.size();
    open.arguments.push_back({std::string(name), int64_t{0}});
    push({Open::leaf, open.kind->op, 0, open.bracket});
    leaves_.push_back(std::move(open));
    return true;
  }
  static bool may_begin_mask(char c) { return is_letter(c) || c == '(' || c == '~'; }

  MaskArgument argument(const MaskKind& kind, size_t bracket) {
    if (peek() == '\0') fail(bracket, "this `(` is never closed; expected `)`");
    MaskArgument result;
    const size_t begin = at_;
    if (is_letter(peek())) {
      const std::string_view word = identifier();
      skip_space();
      if (peek() != '=') {
        result.value = word == "inf"   ? decltype(result.value)(HUGE_VAL)
                       : word == "nan" ? decltype(result.value)(std::nan(""))
                                       : std::string(word);
        return result;
      }
      ++at_;
      at(begin, [&] { require_argument(kind, word); });
      result.name = word;
      skip_space();
    }
    result.value = value();
    return result;
  }

  decltype(MaskArgument::value) value() {
    const char c = peek();
    const size_t begin = at_;
    if (is_digit(c) || c == '-' || c == '+' || c == '.') return number();
    if (c == '@') {
      ++at_;
      if (!is_letter(peek())) fail(at_, "expected the name of an array after `@`");
      return array(identifier(), begin);
    }
    if (c == '"' || c == '\'') {
      const size_t end = text_.find(c, at_ + 1);
      if (end == std::string_view::npos) fail(at_, "this quote is never closed");
      at_ = end + 1;
      return std::string(text_.substr(begin + 1, end - begin - 1));
    }
    if (c == '[') return list();
    if (is_letter(c)) {
      const std::string_view word = identifier();
      if (word == "inf") return HUGE_VAL;
      if (word == "nan") return std::nan("");
      return std::string(word);
    }
    fail(at_, cat("expected an argument", c == '\0' ? ", got the end of the text" : cat(", got `", shown(c), "`"),
                  ": a number, a list [...], an array @name or a word"));
  }

  std::vector<int64_t> list() {
    const size_t bracket = at_++;
    std::vector<int64_t> values;
    skip_space();
    while (peek() != ']') {
      if (!values.empty()) {
        expect(',', peek() == '\0' ? "" : "expected `,` or `]` in a list of integers", bracket);
        skip_space();
      }
      if (peek() == '\0') fail(bracket, "this `[` is never closed; expected `]`");
      const size_t begin = at_;
      if (peek() == '[') fail(at_, "lists of lists are not written out; pass the array by @name");
      if (!is_digit(peek()) && peek() != '-' && peek() != '+')
        fail(at_, cat("expected an integer in the list, got `", shown(peek()), "`"));
      const auto element = number();
      if (!std::holds_alternative<int64_t>(element)) fail(begin, "expected an integer in the list, got a real number");
      values.push_back(std::get<int64_t>(element));
      skip_space();
    }
    ++at_;
    return values;
  }

  // An integer, or with a point, an exponent or `inf` a real.
  decltype(MaskArgument::value) number() {
    const size_t begin = at_;
    const bool negative = peek() == '-';
    if (peek() == '-' || peek() == '+') ++at_;
    if (text_.substr(at_).starts_with("inf") &&
        !(at_ + 3 < text_.size() && (is_letter(text_[at_ + 3]) || is_digit(text_[at_ + 3])))) {
      at_ += 3;
      return negative ? -HUGE_VAL : HUGE_VAL;
    }
    const size_t digits = at_;
    bool real = false;
    const auto skip_digits = [&] {
      while (is_digit(peek())) ++at_;
    };
    skip_digits();
    size_t count = at_ - digits;
    if (peek() == '.') {
      real = true;
      ++at_;
      skip_digits();
      count = at_ - digits - 1;
    }
    if (count == 0) fail(begin, "expected a number");
    if (peek() == 'e' || peek() == 'E') {
      real = true;
      ++at_;
      if (peek() == '-' || peek() == '+') ++at_;
      if (!is_digit(peek())) fail(begin, "expected digits after the exponent's `e`");
      skip_digits();
    }
    if (is_letter(peek()) || peek() == '.') fail(begin, "this is not a number");
    const char* first = text_.data() + digits;
    const char* last = text_.data() + at_;
    if (real) {
      double value = 0;
      if (std::from_chars(first, last, value).ec != std::errc())
        fail(begin, "this number is beyond what 64-bit floats hold");
      return negative ? -value : value;
    }
    if (negative) --first;
    int64_t value = 0;
    if (std::from_chars(first, last, value).ec != std::errc()) fail(begin, "this integer does not fit in 64 bits");
    return value;
  }

  Array array(std::string_view name, size_t begin) {
    std::vector<std::string> names;
    std::string given;
    for (const Array& candidate : arrays_) {
      if (candidate.name == name) return candidate;
      names.push_back(candidate.name);
      if (names.size() <= 16) given += cat(given.empty() ? "" : ", ", candidate.name);
    }
    const std::string nearest = nearest_name(name, names);
    fail(begin, cat("@", name.substr(0, 64), ": no such array; ",
                    names.empty() ? std::string("no arrays were given")
                                  : cat("given: ", given, names.size() > 16 ? ", ..." : ""),
                    nearest.empty() ? "" : cat("; did you mean @", nearest, "?")));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (is_space(peek())) ++at_;
  }
  std::string_view identifier() {
    const size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek()) || peek() == '.') ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void expect(char c, const std::string& message, size_t open = std::string_view::npos) {
    skip_space();
    if (peek() != c) {
      if (message.empty()) fail(open, cat("this `", text_[open], "` is never closed"));
      fail(at_, message);
    }
    ++at_;
  }

  static std::string shown(char c) { return c >= ' ' && c <= '~' ? std::string(1, c) : std::string("?"); }

  // The message, the line around the position, a caret under it.
  [[noreturn]] void fail(size_t position, const std::string& message) const {
    constexpr size_t before = 60, after = 40;
    const size_t begin = position > before ? position - before : 0, end = std::min(text_.size(), position + after);
    std::string line = begin > 0 ? "..." : "";
    const size_t column = line.size() + position - begin;
    for (const char c : text_.substr(begin, end - begin)) line += is_space(c) ? " " : shown(c);
    if (end < text_.size()) line += "...";
    fail_invalid(message, "\n  ", line, "\n  ", std::string(column, ' '), "^ column ", position + 1);
  }

  std::string_view text_;
  std::span<const Array> arrays_;
  size_t at_ = 0;
  MaskProgram program_;
  std::vector<Item> stack_;
  std::vector<Leaf> leaves_;  // those of Open::leaf, in their order
};

}  // namespace

Mask Mask::parse(std::string_view text, std::span<const Array> arrays) { return Mask(Parser(text, arrays).parse()); }

}  // namespace anymask
