// Arguments of leaves: how a program holds them, what can be said of them without lengths, and their arrays seen from
// one plane.
#include "mask/kind.h"

#include <bit>

namespace anymask {
namespace {

size_t width(ArgumentType type) { return type == ArgumentType::mask ? 0 : type == ArgumentType::integers ? 2 : 1; }

bool takes_array(ArgumentType type, int64_t form) {
  return (type == ArgumentType::array || type == ArgumentType::integers) && form == 1;
}

}  // namespace

double LeafArguments::real(size_t argument) const { return std::bit_cast<double>(integer(argument)); }

bool LeafArguments::given(size_t argument) const {
  switch (row_.kind.arguments[argument].type) {
    case ArgumentType::integer:
      return integer(argument) != not_given;
    case ArgumentType::integers:
    case ArgumentType::array:
      return integer(argument) != 0;
    default:
      return true;
  }
}

bool LeafArguments::is_number(size_t argument) const {
  return row_.kind.arguments[argument].type == ArgumentType::integers && integer(argument) == 2;
}

const Array* LeafArguments::array(size_t argument) const {
  const ArgumentType type = row_.kind.arguments[argument].type;
  if (width(type) == 0) return nullptr;  // an operand, for which no integer stands
  return takes_array(type, integer(argument)) ? arrays_ + array_index(argument) : nullptr;
}

size_t LeafArguments::slot(size_t argument) const {
  size_t at = 0;
  for (size_t i = 0; i < argument; ++i) at += width(row_.kind.arguments[i].type);
  return at;
}

size_t LeafArguments::array_index(size_t argument) const {
  size_t at = 0, index = 0;
  for (size_t i = 0; i < argument; ++i) {
    const ArgumentType type = row_.kind.arguments[i].type;
    if (width(type) == 0) continue;
    index += takes_array(type, ints_[at]);
    at += width(type);
  }
  return index;
}

size_t int_count(const KindRow& row) {
  size_t count = 0;
  for (const ArgumentSpec& spec : row.kind.arguments) count += width(spec.type);
  return count;
}

bool well_formed(const KindRow& row, std::span<const int64_t> ints, size_t& array_count) {
  array_count = 0;
  if (ints.size() != int_count(row)) return false;
  size_t at = 0;
  for (const ArgumentSpec& spec : row.kind.arguments) {
    if (spec.type == ArgumentType::mask) continue;
    const int64_t value = ints[at];
    array_count += takes_array(spec.type, value);
    switch (spec.type) {
      case ArgumentType::integer:
        if (value == not_given && spec.required) return false;
        break;
      case ArgumentType::real:
      case ArgumentType::masks:
      case ArgumentType::mask:
        break;
      case ArgumentType::align:
        if (value != 0 && value != 1) return false;
        break;
      case ArgumentType::array:
        if (value != 1 && (value != 0 || spec.required)) return false;
        break;
      case ArgumentType::integers:
        if (value < 0 || value > 2 || (value == 0 && spec.required) || (value == 2 && !spec.scalar_too)) return false;
        if (value != 2 && ints[at + 1] != 0) return false;
        break;
    }
    at += width(spec.type);
  }
  return true;
}

void check_leaf(const LeafArguments& arguments) {
  const auto& specs = arguments.row().kind.arguments;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Array* array = arguments.array(i);
    if (array == nullptr) continue;
    if (array->view.rank < 1 || array->view.rank > 4) {
      fail_invalid(where(arguments, i), " has rank ", array->view.rank, "; expected 1 to 4: reshape it");
    }
    if (specs[i].type == ArgumentType::integers && !is_integer(array->view.dtype)) {
      fail_invalid(where(arguments, i), " has type ", name_of(array->view.dtype),
                   "; expected int32 or int64: convert it");
    }
  }
  if (arguments.row().check != nullptr) arguments.row().check(arguments);
}

Extents extents_of(const LeafArguments& arguments) {
  Extents extents;
  const ArrayAxes axes = arguments.row().axes;
  for (size_t i = 0; i < arguments.row().kind.arguments.size(); ++i) {
    const Array* array = arguments.array(i);
    if (array == nullptr) continue;
    const TensorView& view = array->view;
    const bool batched = (axes == ArrayAxes::entries && view.rank == 1) ||
                         (axes == ArrayAxes::rows && view.rank == 2) || (axes == ArrayAxes::planes && view.rank == 4);
    if (batched && view.shape[0] != 1) extents.batch = view.shape[0];
    if (axes == ArrayAxes::planes && view.rank == 4 && view.shape[1] != 1) extents.heads = view.shape[1];
  }
  return extents;
}

void check_extents(const LeafArguments& arguments, const PlaneContext& plane) {
  const ArrayAxes axes = arguments.row().axes;
  const Array* first = nullptr;
  for (size_t i = 0; i < arguments.row().kind.arguments.size(); ++i) {
    const Array* array = arguments.array(i);
    if (array == nullptr) continue;
    const TensorView& view = array->view;
    if (array->on_device() && view.device != plane.reader) {
      fail_invalid(
          where(arguments, i), " is on CUDA device ", view.device.index, "; this mask is read on ",
          plane.reader.kind == DeviceKind::cpu ? std::string("the host") : cat("CUDA device ", plane.reader.index),
          ": copy it to ",
          plane.reader.kind == DeviceKind::cpu ? "the CPU" : "that device, where the tensors are, or the CPU");
    }
    if (array->on_device() && !arguments.row().device_arrays) {
      fail_invalid(where(arguments, i), " is on CUDA device ", view.device.index,
                   "; it decides what the host prepares: copy it to the CPU, or give numbers");
    }
    if (first == nullptr) first = array;
    if (array->on_device() != first->on_device()) {
      fail_invalid(where(arguments, i), " is on ",
                   array->on_device() ? "a device and the array before it on the CPU"
                                      : "the CPU and the array before it on a device",
                   "; expected both in one place: copy one of them");
    }
    if (view.numel() > 0 && view.data == nullptr)
      fail_invalid(where(arguments, i), " has shape ", view, " but no data: pass its memory");
    const bool batched = (axes == ArrayAxes::entries && view.rank == 1) ||
                         (axes == ArrayAxes::rows && view.rank == 2) || (axes == ArrayAxes::planes && view.rank == 4);
    if (batched && view.shape[0] != 1 && view.shape[0] != plane.num_sequences) {
      fail_invalid(where(arguments, i), " has shape ", view, "; its first axis counts batch entries: expected ",
                   plane.num_sequences == 1 ? cat("1") : cat("1 or ", plane.num_sequences),
                   ": give one row for each sequence, or one for all");
    }
    if (axes == ArrayAxes::planes && view.rank == 4 && view.shape[1] != 1 && view.shape[1] != plane.h_kv &&
        view.shape[1] != plane.h_q) {
      fail_invalid(where(arguments, i), " has shape ", view,
                   "; its second axis counts heads: expected 1, h_kv = ", plane.h_kv, " or h_q = ", plane.h_q,
                   ": use one of them");
    }
  }
}

int64_t head_index(int64_t extent, const PlaneContext& plane) {
  if (extent == 1) return 0;
  return extent == plane.h_q ? plane.head : plane.head / (plane.h_q / plane.h_kv);
}

TensorView plane_view(const LeafArguments& arguments, size_t argument, const PlaneContext& plane) {
  TensorView view = arguments.array(argument)->view;
  const ArrayAxes axes = arguments.row().axes;
  int dropped = 0;
  int64_t offset = 0;
  if (axes == ArrayAxes::planes && view.rank == 4) {
    dropped = 2;
    offset = head_index(view.shape[1], plane) * view.stride[1];
  } else if ((axes == ArrayAxes::entries && view.rank == 1) || (axes == ArrayAxes::rows && view.rank == 2)) {
    dropped = 1;
  }
  if (dropped > 0 && view.shape[0] != 1) offset += plane.batch * view.stride[0];
  for (int i = dropped; i < view.rank; ++i) {
    view.shape[i - dropped] = view.shape[i];
    view.stride[i - dropped] = view.stride[i];
  }
  view.rank -= dropped;
  if (view.data != nullptr) view.data = static_cast<std::byte*>(view.data) + offset * size_of(view.dtype);
  return view;
}

bool on_device(const LeafArguments& arguments) {
  for (size_t i = 0; i < arguments.row().kind.arguments.size(); ++i) {
    if (const Array* array = arguments.array(i)) return array->on_device();
  }
  return false;
}

LeafSource source_of(const TensorView& view, int64_t limit, BoundLeaf& leaf) {
  LeafSource source;
  source.data = view.data;
  for (int i = 0; i < view.rank; ++i) {
    source.extent[i] = view.shape[i];
    source.stride[i] = view.stride[i];
  }
  source.limit = limit;
  source.bytes = static_cast<int32_t>(size_of(view.dtype));
  add_place(leaf.hasher, view);
  return source;
}

int64_t load_integer(const TensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::i32:
      return view.as<const int32_t>()[offset];
    case DType::i64:
      return view.as<const int64_t>()[offset];
    default:
      return view.as<const uint8_t>()[offset];
  }
}

std::vector<int64_t> load_integers(const TensorView& rank1) {
  std::vector<int64_t> values(static_cast<size_t>(rank1.shape[0]));
  for (int64_t i = 0; i < rank1.shape[0]; ++i) values[i] = load_integer(rank1, i * rank1.stride[0]);
  return values;
}

std::string where(const LeafArguments& arguments, size_t argument) {
  const Array* array = arguments.array(argument);
  const MaskKind& kind = arguments.row().kind;
  return cat(kind.name, ": ", kind.arguments[argument].name,
             array && !array->name.empty() ? " (@" + array->name + ")" : "");
}

void require_rank(const LeafArguments& arguments, size_t argument, std::initializer_list<int> ranks,
                  const char* shapes) {
  const Array* array = arguments.array(argument);
  if (array == nullptr) return;
  for (const int rank : ranks) {
    if (array->view.rank == rank) return;
  }
  fail_invalid(where(arguments, argument), " has shape ", array->view, "; expected ", shapes, ": reshape it");
}

void require_positive(const LeafArguments& arguments, size_t argument) {
  if (arguments.integer(argument) < 1) {
    fail_invalid(where(arguments, argument), " is ", arguments.integer(argument),
                 "; expected a positive number: use 1 or more");
  }
}

TensorView require_plane(const LeafArguments& arguments, size_t argument, const PlaneContext& plane, int64_t rows,
                         int64_t cols, const char* expected) {
  TensorView view = plane_view(arguments, argument, plane);
  if (view.rank != 2 || (view.shape[0] != rows && view.shape[0] != 1) || view.shape[1] != cols) {
    fail_invalid(where(arguments, argument), " has shape ", arguments.array(argument)->view, "; expected ", expected,
                 " = [", rows, rows == 1 ? "" : " or 1", ", ", cols,
                 "], or 4-d with [b or 1, heads or 1] before it (s_q = ", plane.s_q, ", s_kv = ", plane.s_kv,
                 "): make it fit");
  }
  if (view.shape[0] == 1) view.stride[0] = 0;
  return view;
}

void require_offsets(const LeafArguments& arguments, size_t argument, const std::vector<int64_t>& offsets, int64_t last,
                     const char* last_name) {
  if (offsets.empty())
    fail_invalid(where(arguments, argument), " is empty; expected offsets from 0 to ", last_name,
                 ": give at least [0]");
  if (offsets.front() != 0) {
    fail_invalid(where(arguments, argument), " starts at ", offsets.front(),
                 "; expected 0: offsets count from the first token");
  }
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      fail_invalid(where(arguments, argument), " decreases from ", offsets[i - 1], " to ", offsets[i], " at index ", i,
                   "; expected offsets that never decrease: give cumulative lengths");
    }
  }
  if (offsets.back() != last) {
    fail_invalid(where(arguments, argument), " ends at ", offsets.back(), "; expected ", last_name, " = ", last,
                 ": the last offset is the length it cuts");
  }
}

}  // namespace anymask
