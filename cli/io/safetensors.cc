#include "cli/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "cli/args.h"

namespace anymask::cli {

namespace {

using nlohmann::json;

constexpr int64_t max_header = 100'000'000;  // the format's own limit
constexpr int max_depth = 3;                 // { name: { "shape": [ ... ] } }
constexpr size_t max_rank = 8;

struct TypeName {
  const char* text;
  ElementType type;
};
constexpr TypeName type_names[] = {{"BOOL", ElementType::boolean}, {"U8", ElementType::u8},   {"I8", ElementType::i8},
                                   {"I16", ElementType::i16},      {"U16", ElementType::u16}, {"F16", ElementType::f16},
                                   {"BF16", ElementType::bf16},    {"I32", ElementType::i32}, {"U32", ElementType::u32},
                                   {"F32", ElementType::f32},      {"F64", ElementType::f64}, {"I64", ElementType::i64},
                                   {"U64", ElementType::u64}};

std::optional<ElementType> type_of(const std::string& text) {
  for (const TypeName& name : type_names) {
    if (text == name.text) return name.type;
  }
  return std::nullopt;
}

struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;
};

json parse_json(const Bytes& bytes, int64_t length, const std::string& what) {
  std::vector<std::set<std::string>> keys;  // of each open object
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= max_depth)
        throw UsageError(what + " is not a valid .safetensors file: its header nests deeper than " +
                         std::to_string(max_depth));
      if (event == json::parse_event_t::object_start) keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        throw UsageError(what + " is not a valid .safetensors file: its header has \"" + key + "\" twice");
    }
    return true;
  };
  try {
    const uint8_t* begin = bytes.data + 8;
    return json::parse(begin, begin + length, watch);
  } catch (const json::exception&) {
    throw UsageError(what + " is not a valid .safetensors file: its header is no JSON");
  }
}

// The entry of one tensor: exactly dtype, shape and data_offsets, all of the right form.
Entry parse_entry(const std::string& name, const json& value, const std::string& what) {
  const auto refuse = [&](const std::string& problem) {
    throw UsageError(what + " is not a valid .safetensors file: tensor \"" + name + "\" " + problem);
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    refuse("must have dtype, shape and data_offsets");
  }
  Entry entry;
  entry.name = name;
  if (!value["dtype"].is_string()) refuse("has a dtype that is no string");
  entry.dtype = value["dtype"].get<std::string>();
  const auto natural = [&](const json& number, const char* of) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      refuse(std::string("has ") + of + " that are not integers >= 0 of 63 bits");
    }
    return number.get<int64_t>();
  };
  if (!value["shape"].is_array() || value["shape"].size() > max_rank)
    refuse("has a shape that is no list of at most 8 numbers");
  for (const json& n : value["shape"]) entry.shape.push_back(natural(n, "dimensions"));
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) refuse("has data_offsets that are no pair");
  entry.begin = natural(offsets[0], "data_offsets");
  entry.end = natural(offsets[1], "data_offsets");
  return entry;
}

Tensor tensor_of(const Entry& entry, ElementType type, const Bytes& bytes, int64_t data_begin) {
  Tensor tensor;
  tensor.name = entry.name;
  tensor.type = type;
  tensor.shape = entry.shape;
  tensor.present = true;
  if (entry.begin == entry.end) return tensor;
  auto* data = const_cast<uint8_t*>(bytes.data) + data_begin + entry.begin;  // only ever read
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(type)) == 0) {
    tensor.data = std::shared_ptr<void>(std::const_pointer_cast<void>(bytes.owner), data);
  } else {
    tensor = make_tensor(entry.name, type, entry.shape);
    std::memcpy(tensor.data.get(), data, static_cast<size_t>(tensor.bytes()));
  }
  return tensor;
}

}  // namespace

SafetensorsFile parse_safetensors(const Bytes& bytes, const std::string& what) {
  const auto refuse = [&what](const std::string& problem) {
    throw UsageError(what + " is not a valid .safetensors file: " + problem);
  };
  if (bytes.size < 8) refuse("it has " + std::to_string(bytes.size) + " bytes, fewer than the length of a header");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes.data[i];
  if (length > static_cast<uint64_t>(max_header))
    refuse("its header says " + std::to_string(length) + " bytes; at most 100,000,000 are allowed");
  if (static_cast<int64_t>(length) > bytes.size - 8)
    refuse("its header says " + std::to_string(length) + " bytes and the file ends before");
  const int64_t data_begin = 8 + static_cast<int64_t>(length);
  const int64_t data_size = bytes.size - data_begin;
  const json header = parse_json(bytes, static_cast<int64_t>(length), what);
  if (!header.is_object()) refuse("its header is no JSON object");

  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) refuse("__metadata__ is no object");
    } else {
      entries.push_back(parse_entry(name, value, what));
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });

  SafetensorsFile file;
  int64_t end = 0;
  for (const Entry& entry : entries) {
    const std::string tensor_name = "tensor \"" + entry.name + "\" ";
    if (entry.end < entry.begin || entry.end > data_size) {
      refuse(tensor_name + "lies at bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) +
             " of " + std::to_string(data_size) + ": the file is truncated or its header is wrong");
    }
    if (entry.begin != end) {
      refuse(tensor_name + "begins at byte " + std::to_string(entry.begin) +
             (entry.begin < end ? " and overlaps" : " and leaves a hole after") + " the tensor that ends at " +
             std::to_string(end));
    }
    end = entry.end;
    const std::optional<ElementType> type = type_of(entry.dtype);
    if (!type) {
      file.unusable.push_back({entry.name, entry.dtype});
      continue;
    }
    const int64_t count = checked_numel(entry.shape);
    if (count < 0 || count * size_of(*type) != entry.end - entry.begin) {
      refuse(tensor_name + "has a shape that does not fit its " + std::to_string(entry.end - entry.begin) + " bytes");
    }
    file.tensors.push_back(tensor_of(entry, *type, bytes, data_begin));
    if (*type != ElementType::boolean) continue;
    for (int64_t i = 0; i < count; ++i) {
      if (file.tensors.back().as<uint8_t>()[i] > 1)
        refuse(tensor_name + "is of type BOOL and holds a byte other than 0 and 1");
    }
  }
  if (end != data_size) refuse("its tensors end at byte " + std::to_string(end) + " of " + std::to_string(data_size));
  return file;
}

SafetensorsFile read_safetensors(const std::string& path, const std::string& what) {
  return parse_safetensors(map_file(path, what), what);
}

const Tensor* SafetensorsFile::find(const std::string& name, const std::string& what) const {
  for (const Tensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  for (const Unusable& tensor : unusable) {
    if (tensor.name == name) {
      throw UsageError(what + ": tensor \"" + name + "\" has type " + tensor.dtype +
                       "; expected F32, F16, BF16, F64, BOOL or an integer type");
    }
  }
  return nullptr;
}

void write_safetensors(OutputFiles& files, int index, const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> order;
  for (const Tensor& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const Tensor* a, const Tensor* b) {
    return size_of(a->type) > size_of(b->type);
  });  // keeps each aligned
  json header = json::object();
  int64_t end = 0;
  for (const Tensor* tensor : order) {
    std::string dtype;
    for (const TypeName& name : type_names) {
      if (name.type == tensor->type) dtype = name.text;
    }
    header[tensor->name] = {{"dtype", dtype}, {"shape", tensor->shape}, {"data_offsets", {end, end + tensor->bytes()}}};
    end += tensor->bytes();
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text += ' ';
  uint8_t length[8];
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(uint64_t{text.size()} >> (8 * i));
  files.write(index, length, 8);
  files.write(index, text.data(), static_cast<int64_t>(text.size()));
  for (const Tensor* tensor : order) files.write(index, tensor->data.get(), tensor->bytes());
}

}  // namespace anymask::cli
