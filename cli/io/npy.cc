#include "cli/io/npy.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/args.h"

namespace anymask::cli {

namespace {

constexpr int64_t max_rank = 8;

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the dictionary above and nothing else of Python.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (!seen) bad("has the unknown key '" + key + "'");
      if (std::exchange(*seen, true)) bad("has the key '" + key + "' twice");
      if (key == "descr") {
        skip();
        if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
          throw UsageError(what_ +
                           " is a structured array; expected one plain type: save one field alone, such as a['x']");
        }
        header.descr = string();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else {
        header.shape = tuple();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) bad("goes on after its dictionary");
    if (!has_descr || !has_order || !has_shape) bad("must have the keys descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void bad(const std::string& problem) const {
    throw UsageError(what_ + " is not a valid .npy file: its header " + problem + ": save it again with numpy.save");
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("lacks a '") + c + "' at byte " + std::to_string(at_));
  }
  std::string string() {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      bad("lacks a string at byte " + std::to_string(at_));
    const char quote = text_[at_++];
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos || end - at_ > 64) bad("has a string without an end");
    const std::string value(text_.substr(at_, end - at_));
    if (std::any_of(value.begin(), value.end(), [](char c) { return c < ' ' || c > '~'; }))
      bad("has a string that is not plain text");
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    bad("must say True or False for fortran_order");
  }
  int64_t integer() {
    skip();
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
        bad("has a dimension beyond 64 bits");
      }
    }
    if (at_ == begin) bad("has a shape that is not a tuple of integers >= 0");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (static_cast<int64_t>(values.size()) > max_rank)
        bad("has more than " + std::to_string(max_rank) + " dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  size_t at_ = 0;
  const std::string& what_;
};

ElementType element_type(const std::string& descr, const std::string& what) {
  struct Name {
    const char* code;
    ElementType type;
  };
  static constexpr Name names[] = {{"f2", ElementType::f16},    {"f4", ElementType::f32}, {"f8", ElementType::f64},
                                   {"i1", ElementType::i8},     {"i2", ElementType::i16}, {"i4", ElementType::i32},
                                   {"i8", ElementType::i64},    {"u1", ElementType::u8},  {"u2", ElementType::u16},
                                   {"V2", ElementType::u16},    {"u4", ElementType::u32}, {"u8", ElementType::u64},
                                   {"b1", ElementType::boolean}};
  if (descr.size() == 3) {
    for (const Name& name : names) {
      if (descr.substr(1) != name.code) continue;
      if (descr[0] == '>' && size_of(name.type) > 1) {
        throw UsageError(what + " is big-endian ('" + descr + "'); expected little-endian: save a.astype('<" +
                         descr.substr(1) + "')");
      }
      if (descr[0] == '<' || descr[0] == '|' || descr[0] == '>') return name.type;
    }
  }
  throw UsageError(what + " has elements of type '" + descr +
                   "'; expected float16, float32, float64, bool or an integer type: convert it with .astype");
}

// Element (i0, i1, ...) of Fortran order lies at i0 + n0 * (i1 + n1 * ...).
Tensor to_c_order(const Tensor& source) {
  Tensor result = make_tensor(source.name, source.type, source.shape);
  const auto rank = static_cast<int>(source.shape.size());
  const auto size = static_cast<size_t>(size_of(source.type));
  std::vector<int64_t> index(static_cast<size_t>(rank), 0);
  const int64_t count = source.numel();
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = 0;
    for (int d = rank - 1; d >= 0; --d)
      from = from * source.shape[static_cast<size_t>(d)] + index[static_cast<size_t>(d)];
    std::memcpy(result.as<char>() + static_cast<size_t>(i) * size, source.as<char>() + static_cast<size_t>(from) * size,
                size);
    for (auto d = static_cast<size_t>(rank); d-- > 0;) {
      if (++index[d] < source.shape[d]) break;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace

Tensor parse_npy(const Bytes& bytes, const std::string& what) {
  const auto refuse = [&what](const std::string& problem) {
    throw UsageError(what + " is not a valid .npy file: " + problem);
  };
  if (bytes.size < 10) refuse("it has " + std::to_string(bytes.size) + " bytes, fewer than a header");
  if (std::memcmp(bytes.data, "\x93NUMPY", 6) != 0)
    refuse("it does not begin with \\x93NUMPY: is it of another format?");
  const int version = bytes.data[6];
  if (version < 1 || version > 3) refuse("it has version " + std::to_string(version) + "; versions 1 to 3 are known");
  const int64_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size < 8 + length_bytes) refuse("it ends inside its header");
  int64_t length = 0;
  for (int64_t i = length_bytes - 1; i >= 0; --i) length = length << 8 | bytes.data[8 + i];
  const int64_t begin = 8 + length_bytes + length;
  if (begin > bytes.size) refuse("its header says " + std::to_string(length) + " bytes and the file ends before");
  if (length > 65535)
    refuse("its header has " + std::to_string(length) + " bytes; plain arrays need fewer than 65,536");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data) + 8 + length_bytes,
                              static_cast<size_t>(length));
  const Header header = HeaderParser(text, what).parse();

  Tensor tensor;
  tensor.name = what;
  tensor.type = element_type(header.descr, what);
  tensor.shape = header.shape;
  tensor.present = true;
  const int64_t count = tensor.numel();
  if (count < 0) refuse("its shape " + tensor.shape_text() + " has more elements than 64-bit sizes hold");
  const int64_t expected = tensor.bytes(), got = bytes.size - begin;
  if (expected != got) {
    refuse("its shape " + tensor.shape_text() + " of " + name_of(tensor.type) + " needs " + std::to_string(expected) +
           " bytes of data and the file has " + std::to_string(got) +
           (got < expected ? ": it is truncated" : ": its header is wrong"));
  }
  if (count == 0) return tensor;
  auto* data = const_cast<uint8_t*>(bytes.data) + begin;  // only ever read
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(tensor.type)) == 0) {
    tensor.data = std::shared_ptr<void>(std::const_pointer_cast<void>(bytes.owner), data);
  } else {
    Tensor aligned = make_tensor(tensor.name, tensor.type, tensor.shape);
    std::memcpy(aligned.data.get(), data, static_cast<size_t>(expected));
    tensor = aligned;
  }
  if (tensor.type == ElementType::boolean) {
    const uint8_t* values = tensor.as<uint8_t>();
    for (int64_t i = 0; i < count; ++i) {
      if (values[i] > 1)
        refuse("it is of type bool and holds the byte " + std::to_string(values[i]) + "; expected 0 or 1");
    }
  }
  return header.fortran_order && tensor.shape.size() > 1 ? to_c_order(tensor) : tensor;
}

Tensor read_npy(const std::string& path, const std::string& name) {
  const std::string what = name + " (" + path + ")";
  Tensor tensor = parse_npy(map_file(path, what), what);
  tensor.name = name;
  return tensor;
}

void write_npy(OutputFiles& files, int index, const Tensor& tensor) {
  if (tensor.type == ElementType::bf16) return write_npy(files, index, convert(tensor, ElementType::f32));
  const char* descr = "<f4";
  switch (tensor.type) {
    case ElementType::f16:
      descr = "<f2";
      break;
    case ElementType::f64:
      descr = "<f8";
      break;
    case ElementType::i8:
      descr = "|i1";
      break;
    case ElementType::i16:
      descr = "<i2";
      break;
    case ElementType::u16:
      descr = "<u2";
      break;
    case ElementType::i32:
      descr = "<i4";
      break;
    case ElementType::u32:
      descr = "<u4";
      break;
    case ElementType::i64:
      descr = "<i8";
      break;
    case ElementType::u64:
      descr = "<u8";
      break;
    case ElementType::u8:
      descr = "|u1";
      break;
    case ElementType::boolean:
      descr = "|b1";
      break;
    case ElementType::f32:
    case ElementType::bf16:
      break;
  }
  std::string shape = "(";
  for (const int64_t n : tensor.shape) shape += std::to_string(n) + ", ";
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape.size() == 1) shape.pop_back();
  std::string dictionary = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': " + shape + "), }";
  while ((10 + dictionary.size() + 1) % 64 != 0) dictionary += ' ';  // the elements begin at a multiple of 64 bytes
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 255);
  header += static_cast<char>(dictionary.size() >> 8);
  header += dictionary;
  files.write(index, header.data(), static_cast<int64_t>(header.size()));
  files.write(index, tensor.data.get(), tensor.bytes());
}

}  // namespace anymask::cli
