// The C functions that make masks and look at them.
#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/host_mask.h"
#include "api/json.h"
#include "api/lengths.h"
#include "api/overlap.h"
#include "api/status.h"
#include "api/text.h"
#include "api/view.h"
#include "core/error.h"
#include "cpu/thread_pool.h"
#include "mask/bound_mask.h"
#include "mask/registry.h"
#include "plan/builder.h"

namespace anymask {
namespace {

Array read_array(const char* operation, const char* fallback_name, const anymask_named_array& given) {
  const std::string name = given.name == nullptr ? "" : given.name;
  const std::string shown = name.empty() ? fallback_name : "@" + name;
  const TensorView view = view_of(operation, shown.c_str(), required(operation, shown.c_str(), given.tensor));
  if (view.rank == 0) fail_invalid(operation, ": ", shown, " is a single number; expected an array: give it an axis");
  if (view.device.kind != DeviceKind::cpu && given.copy != 0)
    fail_invalid(
        operation, ": ", shown, " is on CUDA device ", view.device.index,
        " and to be copied; masks copy arrays of the CPU alone: borrow it (copy = 0) and keep it alive, or copy "
        "it to the CPU");
  return given.copy != 0 ? Array::own(view, name) : Array::borrow(view, name);
}

// Array `pointer` of `count` elements from a caller.
template <class T>
std::span<const T> list(const char* operation, const char* name, const T* pointer, int64_t count) {
  if (count < 0 || count > (int64_t{1} << 40))
    fail_invalid(operation, ": there are ", count, " ", name, "; expected a count: pass how many there are");
  if (count > 0) required(operation, name, pointer);
  return {pointer, static_cast<size_t>(count)};
}

MaskArgument read_argument(const char* operation, const anymask_argument& a) {
  MaskArgument argument;
  if (a.name != nullptr) argument.name = a.name;
  switch (static_cast<int>(a.type)) {
    case ANYMASK_ARG_INT:
      argument.value = a.integer;
      return argument;
    case ANYMASK_ARG_REAL:
      argument.value = a.real;
      return argument;
    case ANYMASK_ARG_INTS: {
      const auto values = list(operation, "ints", a.ints, a.count);
      argument.value = std::vector<int64_t>(values.begin(), values.end());
      return argument;
    }
    case ANYMASK_ARG_ARRAY:
      argument.value = read_array(operation, argument.name.empty() ? "an array" : argument.name.c_str(), a.array);
      return argument;
    case ANYMASK_ARG_TEXT:
      argument.value = std::string(&required(operation, "text", a.text));
      return argument;
    case ANYMASK_ARG_MASK:
      argument.value = required(operation, "mask", a.mask).mask;
      return argument;
    default:
      fail_invalid(operation, ": an argument has type ", static_cast<int>(a.type),
                   "; expected one of anymask_argument_type, 0 to 5: zero the struct and set type");
  }
}

std::vector<Mask> read_masks(const char* operation, const anymask_mask_t* masks, int64_t num_masks) {
  std::vector<Mask> result;
  for (const anymask_mask_t mask : list(operation, "masks", masks, num_masks))
    result.push_back(required(operation, "a mask", mask).mask);
  return result;
}

template <class Make>
anymask_status make_mask(const char* operation, anymask_mask_t* out, Make&& make) {
  return guarded([&] {
    anymask_mask_t& result = required(operation, "out", out);
    result = new anymask_mask_s{make()};
  });
}

// One plane of a mask under lengths. `bound` owns it.
struct PlaneOf {
  BoundMask bound;
  const PlaneMask* plane;
};
PlaneOf plane_of(const char* operation, anymask_mask_t mask, const anymask_lengths* lengths, int64_t sequence,
                 int64_t head) {
  const Mask m = on_host(required(operation, "mask", mask).mask);
  const Lengths l = read_lengths(operation, lengths);
  const auto sequences = static_cast<int64_t>(l.sequences.size());
  if (sequence < 0 || sequence >= sequences)
    fail_invalid(operation, ": sequence is ", sequence, "; expected 0 to ", sequences - 1, ": check the lengths");
  if (head < 0 || head >= l.h_q)
    fail_invalid(operation, ": head is ", head, "; expected 0 to ", l.h_q - 1, ": check h_q in the lengths");
  PlaneOf result = {anymask::bind(m, l.sequences, l.h_q, l.h_kv), nullptr};
  result.plane = &result.bound.planes[static_cast<size_t>(result.bound.plane(sequence, head))];
  return result;
}

// An output of rank 2 on the CPU.
TensorView out2(const char* operation, const DLTensor* out) {
  const TensorView view = view_of(operation, "out", required(operation, "out", out));
  if (view.rank != 2) fail_invalid(operation, ": out has shape ", view, "; expected rank 2, [rows, cols]: reshape it");
  if (view.device.kind != DeviceKind::cpu)
    fail_invalid(operation, ": out is on a CUDA device; expected the CPU: copy it");
  if (overlaps_itself(view))
    fail_invalid(operation,
                 ": out has overlapping or backward strides; each element needs its own place: make it contiguous");
  return view;
}

const char* type_name(ArgumentType type) {
  switch (type) {
    case ArgumentType::integer:
      return "integer";
    case ArgumentType::real:
      return "real";
    case ArgumentType::integers:
      return "integers";
    case ArgumentType::array:
      return "array";
    case ArgumentType::align:
      return "align";
    case ArgumentType::masks:
      return "masks";
    case ArgumentType::mask:
      return "mask";
  }
  return "?";
}

}  // namespace
}  // namespace anymask

using namespace anymask;

anymask_status anymask_mask_parse(const char* text, const anymask_named_array* arrays, int64_t num_arrays,
                                  anymask_mask_t* out) {
  constexpr const char* kOperation = "mask parse";
  return make_mask(kOperation, out, [&] {
    required(kOperation, "text", text);
    std::vector<Array> own;
    for (const anymask_named_array& array : list(kOperation, "arrays", arrays, num_arrays)) {
      if (array.name == nullptr || array.name[0] == '\0')
        fail_invalid(kOperation,
                     ": an array has no name; text refers to arrays by @name: set anymask_named_array.name");
      own.push_back(read_array(kOperation, "an array", array));
    }
    return Mask::parse(text, own);
  });
}

anymask_status anymask_mask_leaf(const char* kind, const anymask_argument* arguments, int64_t num_arguments,
                                 anymask_mask_t* out) {
  constexpr const char* kOperation = "mask";
  return make_mask(kOperation, out, [&] {
    required(kOperation, "kind", kind);
    std::vector<MaskArgument> own;
    for (const anymask_argument& argument : list(kOperation, "arguments", arguments, num_arguments))
      own.push_back(read_argument(kind, argument));
    return Mask::leaf(kind, own);
  });
}

anymask_status anymask_mask_and(anymask_mask_t a, anymask_mask_t b, anymask_mask_t* out) {
  return make_mask("mask &", out, [&] { return required("mask &", "a", a).mask & required("mask &", "b", b).mask; });
}

anymask_status anymask_mask_or(anymask_mask_t a, anymask_mask_t b, anymask_mask_t* out) {
  return make_mask("mask |", out, [&] { return required("mask |", "a", a).mask | required("mask |", "b", b).mask; });
}

anymask_status anymask_mask_not(anymask_mask_t a, anymask_mask_t* out) {
  return make_mask("mask ~", out, [&] { return ~required("mask ~", "a", a).mask; });
}

anymask_status anymask_mask_per_batch(const anymask_mask_t* masks, int64_t num_masks, anymask_mask_t* out) {
  return make_mask("per_batch", out, [&] { return Mask::per_batch(read_masks("per_batch", masks, num_masks)); });
}

anymask_status anymask_mask_per_head(const anymask_mask_t* masks, int64_t num_masks, anymask_mask_t* out) {
  return make_mask("per_head", out, [&] { return Mask::per_head(read_masks("per_head", masks, num_masks)); });
}

void anymask_mask_free(anymask_mask_t mask) { delete mask; }

anymask_status anymask_mask_text(anymask_mask_t mask, char** out) {
  return guarded([&] {
    char*& result = required("mask text", "out", out);
    result = give_text(required("mask text", "mask", mask).mask.str());
  });
}

anymask_status anymask_mask_equal(anymask_mask_t a, anymask_mask_t b, int32_t* out) {
  return guarded([&] {
    int32_t& result = required("mask ==", "out", out);
    result = required("mask ==", "a", a).mask == required("mask ==", "b", b).mask ? 1 : 0;
  });
}

anymask_status anymask_mask_digest(anymask_mask_t mask, uint64_t out[2]) {
  return guarded([&] {
    required("mask digest", "out", out);
    const Digest digest = required("mask digest", "mask", mask).mask.digest();
    out[0] = digest[0];
    out[1] = digest[1];
  });
}

anymask_status anymask_mask_to_bytes(anymask_mask_t mask, uint8_t** out, size_t* size) {
  return guarded([&] {
    uint8_t*& result = required("mask bytes", "out", out);
    size_t& result_size = required("mask bytes", "size", size);
    const std::vector<uint8_t> bytes = on_host(required("mask bytes", "mask", mask).mask).to_bytes();
    result = reinterpret_cast<uint8_t*>(give_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    result_size = bytes.size();
  });
}

anymask_status anymask_mask_from_bytes(const uint8_t* bytes, size_t size, anymask_mask_t* out) {
  return make_mask("mask bytes", out, [&] {
    if (size > 0) required("mask bytes", "bytes", bytes);
    return Mask::from_bytes({bytes, size});
  });
}

anymask_status anymask_mask_kinds(char** json) {
  return guarded([&] {
    char*& result = required("mask kinds", "json", json);
    Json j;
    j.open('[');
    for (const MaskKind& kind : mask_kinds()) {
      j.open('{')
          .field("name", kind.name)
          .field("keeps", kind.keeps)
          .field("summary", kind.summary)
          .field("example", kind.example);
      j.key("arguments").open('[');
      for (const ArgumentSpec& argument : kind.arguments) {
        j.open('{')
            .field("name", argument.name)
            .field("type", type_name(argument.type))
            .field("required", argument.required);
        j.field("default", argument.default_text).field("doc", argument.doc).close('}');
      }
      j.close(']').close('}');
    }
    j.close(']');
    result = give_text(j.text());
  });
}

anymask_status anymask_mask_random(uint64_t seed, const anymask_lengths* lengths, int32_t leaves, anymask_mask_t* out) {
  constexpr const char* kOperation = "random mask";
  return make_mask(kOperation, out, [&] {
    const Lengths l = read_lengths(kOperation, lengths);
    if (leaves < 1 || leaves > 1000) fail_invalid(kOperation, ": leaves is ", leaves, "; expected 1 to 1000");
    if (l.sequences.empty()) return random_mask(seed, {0, 0, 1, l.h_q, l.h_kv}, leaves);
    const Sequence& first = l.sequences.front();
    bool same = true;
    for (const Sequence& s : l.sequences) same = same && s.s_q == first.s_q && s.s_kv == first.s_kv;
    if (same)
      return random_mask(seed, {first.s_q, first.s_kv, static_cast<int64_t>(l.sequences.size()), l.h_q, l.h_kv},
                         leaves);
    // Arrays fit one length: packed sequences of several lengths get a mask each. One that counts sequences itself
    // would count one; the next seed is taken instead.
    std::vector<Mask> masks;
    for (const Sequence& s : l.sequences) {
      const auto counts_sequences = [](const Mask& m) {
        const auto& code = m.program().code;
        return std::any_of(code.begin(), code.end(), [](const Instruction& i) { return i.op == Op::per_batch; });
      };
      Mask mask = random_mask(seed++, {s.s_q, s.s_kv, 1, l.h_q, l.h_kv}, leaves);
      while (counts_sequences(mask)) mask = random_mask(seed++, {s.s_q, s.s_kv, 1, l.h_q, l.h_kv}, leaves);
      masks.push_back(std::move(mask));
    }
    return Mask::per_batch(std::move(masks));
  });
}

anymask_status anymask_mask_select(anymask_mask_t mask, const anymask_lengths* lengths, anymask_mask_t* out) {
  constexpr const char* kOperation = "mask select";
  return make_mask(kOperation, out, [&] {
    const Mask& m = required(kOperation, "mask", mask).mask;
    const Lengths l = read_lengths(kOperation, lengths);
    return m.select(l.sequences, l.h_q, l.h_kv, pool_workers(0));
  });
}

anymask_status anymask_mask_dense(anymask_mask_t mask, const anymask_lengths* lengths, int64_t sequence, int64_t head,
                                  int64_t q_begin, int64_t kv_begin, const DLTensor* out) {
  return guarded([&] {
    constexpr const char* kOperation = "mask dense";
    const TensorView view = out2(kOperation, out);
    if (view.dtype != DType::boolean && view.dtype != DType::u8)
      fail_invalid(kOperation, ": out is ", name_of(view.dtype), "; expected bool or uint8: give it that type");
    const PlaneOf p = plane_of(kOperation, mask, lengths, sequence, head);
    const int64_t rows = view.shape[0], cols = view.shape[1];
    if (q_begin < 0 || q_begin > p.plane->s_q - rows || kv_begin < 0 || kv_begin > p.plane->s_kv - cols)
      fail_invalid(kOperation, ": out has shape ", view, " from row ", q_begin, " and key ", kv_begin,
                   "; expected a part of the plane of ", p.plane->s_q, " rows and ", p.plane->s_kv,
                   " keys: move or shrink it");
    if (rows == 0 || cols == 0) return;
    const int64_t stripe = std::max<int64_t>(1, (int64_t{1} << 22) / cols);  // rows at a time: 4 MiB on the side
    for (int64_t begin = 0; begin < rows; begin += stripe) {
      const int64_t n = std::min(stripe, rows - begin);
      const std::vector<uint8_t> part =
          dense(*p.plane, {q_begin + begin, q_begin + begin + n, kv_begin, kv_begin + cols});
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < cols; ++j)
          view.as<uint8_t>()[(begin + i) * view.stride[0] + j * view.stride[1]] =
              part[static_cast<size_t>(i * cols + j)];
    }
  });
}

anymask_status anymask_mask_coverage(anymask_mask_t mask, const anymask_lengths* lengths, int64_t sequence,
                                     int64_t head, const DLTensor* out) {
  return guarded([&] {
    constexpr const char* kOperation = "mask coverage";
    const TensorView view = out2(kOperation, out);
    if (view.dtype != DType::f32)
      fail_invalid(kOperation, ": out is ", name_of(view.dtype), "; expected float32: give it that type");
    const PlaneOf p = plane_of(kOperation, mask, lengths, sequence, head);
    const int64_t rows = view.shape[0], cols = view.shape[1];
    if (rows == 0 || cols == 0) return;
    const std::vector<float> cells = coverage(*p.plane, rows, cols);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        view.as<float>()[i * view.stride[0] + j * view.stride[1]] = cells[static_cast<size_t>(i * cols + j)];
  });
}

anymask_status anymask_mask_count(anymask_mask_t mask, const anymask_lengths* lengths, int64_t* kept, int64_t* pairs) {
  return guarded([&] {
    constexpr const char* kOperation = "mask count";
    int64_t& kept_sum = required(kOperation, "kept", kept);
    int64_t& pairs_sum = required(kOperation, "pairs", pairs);
    const Mask m = on_host(required(kOperation, "mask", mask).mask);
    const Lengths l = read_lengths(kOperation, lengths);
    const BoundMask bound = anymask::bind(m, l.sequences, l.h_q, l.h_kv);
    std::vector<int64_t> uses(bound.planes.size());
    for (const int32_t plane : bound.plane_of) uses[static_cast<size_t>(plane)] += l.h_q / bound.heads;
    int64_t k = 0, all = 0;
    for (size_t i = 0; i < uses.size(); ++i) {
      k += uses[i] * count_kept(bound.planes[i]);
      all += uses[i] * bound.planes[i].s_q * bound.planes[i].s_kv;
    }
    kept_sum = k;
    pairs_sum = all;
  });
}

void anymask_free(void* pointer) { std::free(pointer); }
