// anymask for C++20: masks as values, tensors as views of memory you own, errors as exceptions of one type.
//
//   using namespace anymask;
//   Mask m = causal() & documents(cu_seqlens) | keys(0, 4);
//   attention_forward(q, k, v, out, lse, {.mask = m, .bias = bias, .softcap = 30.0});
//   attention_backward(dout, q, k, v, out, lse, dq, dk, dv, {.mask = m, .bias = bias, .softcap = 30.0});
//
// Header-only over the C API (anymask.h), whose conventions hold: shapes q [b, s_q, h_q, d_qk], k [b, s_kv, h_kv,
// d_qk], v [b, s_kv, h_kv, d_v], out [b, s_q, h_q, d_v], lse [b, h_q, s_q] float32, natural logarithm; packed variable
// lengths drop the batch axis. Every function throws anymask::Error when the C function behind it fails, with that
// function's message. Nothing here keeps a pointer to a tensor beyond the call, except masks over borrowed arrays.
//
// The names live in an inline namespace, so that this header and another version of it can meet in one program.
#ifndef ANYMASK_ANYMASK_HPP_
#define ANYMASK_ANYMASK_HPP_

#include <anymask/anymask.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace anymask {
inline namespace v0 {

// ---------------------------------------------------------------- errors

enum class Status {
  ok = ANYMASK_OK,
  invalid_argument = ANYMASK_INVALID_ARGUMENT,  // the caller's input is wrong: fix it
  unsupported = ANYMASK_UNSUPPORTED,            // the input is right, but nothing here computes it
  out_of_memory = ANYMASK_OUT_OF_MEMORY,
  internal = ANYMASK_INTERNAL,        // a defect of the library
  interrupted = ANYMASK_INTERRUPTED,  // Context::interrupted said so
};

// The only exception thrown: what() names the operation, the argument, what was expected, what came, and the way out.
class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

namespace detail {

inline void check(anymask_status status) {
  if (status != ANYMASK_OK) throw Error(static_cast<Status>(status), anymask_last_error());
}

// A char* the library handed out, as a string.
inline std::string take(char* text) {
  const std::unique_ptr<char, void (*)(void*)> owner(text, anymask_free);
  return std::string(text);
}

}  // namespace detail

inline std::string_view version() { return anymask_version(); }

// --------------------------------------------------------------- tensors

enum class DType : uint8_t { float32, float16, bfloat16, float64, int32, int64, uint8, boolean };

constexpr DLDataType to_dlpack(DType type) {
  switch (type) {
    case DType::float32:
      return {kDLFloat, 32, 1};
    case DType::float16:
      return {kDLFloat, 16, 1};
    case DType::bfloat16:
      return {kDLBfloat, 16, 1};
    case DType::float64:
      return {kDLFloat, 64, 1};
    case DType::int32:
      return {kDLInt, 32, 1};
    case DType::int64:
      return {kDLInt, 64, 1};
    case DType::uint8:
      return {kDLUInt, 8, 1};
    case DType::boolean:
      return {ANYMASK_DL_BOOL, 8, 1};
  }
  return {kDLOpaqueHandle, 0, 0};
}

namespace detail {

template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int32_t> ||
    std::same_as<T, int64_t> || std::same_as<T, uint8_t> || std::same_as<T, bool>;

template <Element T>
constexpr DType dtype_of() {
  if constexpr (std::same_as<T, float>)
    return DType::float32;
  else if constexpr (std::same_as<T, double>)
    return DType::float64;
  else if constexpr (std::same_as<T, int32_t>)
    return DType::int32;
  else if constexpr (std::same_as<T, int64_t>)
    return DType::int64;
  else if constexpr (std::same_as<T, uint8_t>)
    return DType::uint8;
  else
    return DType::boolean;
}

}  // namespace detail

// A view: pointer, type, shape, strides in elements, device. Copies freely, owns nothing. A default-made one stands for
// "none".
class Tensor {
 public:
  static constexpr size_t max_rank = 8;
  using Dims = std::span<const int64_t>;

  Tensor() = default;

  // Any type, 16-bit floats included: Tensor(pointer, DType::bfloat16, {2, 512, 8, 64}). No strides: contiguous.
  Tensor(const void* data, DType dtype, Dims shape, Dims strides = {}, DLDevice device = {kDLCPU, 0})
      : data_(const_cast<void*>(data)), device_(device), dtype_(to_dlpack(dtype)) {
    set_dims(shape, strides);
  }
  Tensor(const void* data, DType dtype, std::initializer_list<int64_t> shape,
         std::initializer_list<int64_t> strides = {}, DLDevice device = {kDLCPU, 0})
      : Tensor(data, dtype, Dims(shape.begin(), shape.size()), Dims(strides.begin(), strides.size()), device) {}

  // Typed memory (float, double, int32_t, int64_t, uint8_t, bool): Tensor(pointer, {2, 512, 8, 64}).
  template <class T>
  requires detail::Element<std::remove_const_t<T>> Tensor(T* data, std::initializer_list<int64_t> shape,
                                                          std::initializer_list<int64_t> strides = {})
      : Tensor(data, detail::dtype_of<std::remove_const_t<T>>(), shape, strides) {}

  // A vector, array or span of such elements, which must hold at least what the (contiguous) shape asks for.
  template <std::ranges::contiguous_range R>
  requires(detail::Element<std::ranges::range_value_t<R>>&& std::is_lvalue_reference_v<R&&> &&
           !std::is_array_v<std::remove_reference_t<R>>) Tensor(R&& elements, std::initializer_list<int64_t> shape)
      : Tensor(std::ranges::data(elements), detail::dtype_of<std::ranges::range_value_t<R>>(), shape) {
    check_fits(std::ranges::size(elements));
  }
  template <class T>
  requires detail::Element<std::remove_const_t<T>> Tensor(std::span<T> elements, std::initializer_list<int64_t> shape)
      : Tensor(elements.data(), detail::dtype_of<std::remove_const_t<T>>(), shape) {
    check_fits(elements.size());
  }

  // A view another library made. Its shape and strides are copied.
  explicit Tensor(const DLTensor& t) : data_(t.data), byte_offset_(t.byte_offset), device_(t.device), dtype_(t.dtype) {
    const auto rank = static_cast<size_t>(t.ndim < 0 ? 0 : t.ndim);
    set_dims(Dims(t.shape, rank), t.strides == nullptr ? Dims() : Dims(t.strides, rank));
  }

  bool defined() const { return defined_; }
  size_t rank() const { return rank_; }
  Dims shape() const { return {shape_.data(), rank_}; }
  void* data() const { return data_; }
  DLDevice device() const { return device_; }

  // The DLPack view; valid while this object lives and stays where it is.
  DLTensor dlpack() const {
    DLTensor t = {};
    t.data = data_;
    t.device = device_;
    t.ndim = static_cast<int>(rank_);
    t.dtype = dtype_;
    t.shape = const_cast<int64_t*>(shape_.data());
    t.strides = strided_ ? const_cast<int64_t*>(strides_.data()) : nullptr;
    t.byte_offset = byte_offset_;
    return t;
  }

 private:
  void set_dims(Dims shape, Dims strides) {
    if (shape.size() > max_rank || (!strides.empty() && strides.size() != shape.size()))
      throw Error(Status::invalid_argument, "Tensor: the shape has " + std::to_string(shape.size()) +
                                                " dimensions and there are " + std::to_string(strides.size()) +
                                                " strides; expected at most 8, and as many strides or none");
    rank_ = shape.size();
    strided_ = !strides.empty();
    for (size_t i = 0; i < rank_; ++i) {
      shape_[i] = shape[i];
      if (strided_) strides_[i] = strides[i];
    }
    defined_ = true;
  }
  void check_fits(size_t have) const {
    uint64_t need = 1;
    for (size_t i = 0; i < rank_; ++i) {
      const auto n = static_cast<uint64_t>(shape_[i] < 0 ? 0 : shape_[i]);
      need =
          n != 0 && need > std::numeric_limits<uint64_t>::max() / n ? std::numeric_limits<uint64_t>::max() : need * n;
    }
    if (need > have)
      throw Error(Status::invalid_argument, "Tensor: the shape asks for " + std::to_string(need) +
                                                " elements; the memory holds " + std::to_string(have) +
                                                ": give more memory or a smaller shape");
  }

  void* data_ = nullptr;
  uint64_t byte_offset_ = 0;
  DLDevice device_ = {kDLCPU, 0};
  DLDataType dtype_ = {kDLFloat, 32, 1};
  bool defined_ = false, strided_ = false;
  size_t rank_ = 0;
  std::array<int64_t, max_rank> shape_ = {}, strides_ = {};
};

// An array a mask holds: offsets, parents, packed bits, a block map, a bias. From numbers, or from a tensor.
// Copied when the mask is made; borrow() keeps the caller's memory instead, which must then outlive the mask unchanged.
// Device memory is always borrowed: calls there read it on their stream, whatever it holds then.
class Array {
 public:
  Array() = default;  // "not given"
  Array(std::initializer_list<int64_t> values) : ints_(values), defined_(true) {}
  Array(std::vector<int64_t> values) : ints_(std::move(values)), defined_(true) {}
  Array(std::span<const int64_t> values) : ints_(values.begin(), values.end()), defined_(true) {}
  Array(const std::vector<int32_t>& values) : ints_(values.begin(), values.end()), defined_(true) {}
  Array(const Tensor& tensor)
      : tensor_(tensor),
        defined_(true),
        copy_(tensor.device().device_type != kDLCUDA && tensor.device().device_type != kDLCUDAManaged) {}

  static Array borrow(const Tensor& tensor) {
    Array a(tensor);
    a.copy_ = false;
    return a;
  }
  // The name under which the mask's text shows it: named("cu") prints as @cu.
  Array named(std::string name) const {
    Array a = *this;
    a.name_ = std::move(name);
    return a;
  }

  bool defined() const { return defined_; }
  bool inline_list() const { return !tensor_.defined(); }
  bool copy() const { return copy_; }
  const std::string& name() const { return name_; }
  const std::vector<int64_t>& ints() const { return ints_; }
  // Numbers count as a rank-1 int64 tensor.
  Tensor tensor() const {
    return inline_list() ? Tensor(ints_.data(), DType::int64, {static_cast<int64_t>(ints_.size())}) : tensor_;
  }

 private:
  Tensor tensor_;
  std::vector<int64_t> ints_;
  std::string name_;
  bool defined_ = false, copy_ = true;
};

// --------------------------------------------------------------- lengths

// What a mask is looked at with. Either batch, s_q, s_kv; or cu_seqlens (int32 or int64 [n + 1] on the CPU) of packed
// sequences.
struct Lengths {
  int64_t s_q = 0, s_kv = 0;
  int64_t batch = 1;
  int64_t h_q = 1, h_kv = 1;
  Tensor cu_seqlens_q = {};
  Tensor cu_seqlens_kv = {};  // none: as cu_seqlens_q
};

namespace detail {

// Tensor -> const DLTensor*, null for "none". The DLTensor lives in this object.
class View {
 public:
  explicit View(const Tensor& t) : dl_(t.dlpack()), defined_(t.defined()) {}
  const DLTensor* get() const { return defined_ ? &dl_ : nullptr; }

 private:
  DLTensor dl_;
  bool defined_;
};

struct CLengths {
  explicit CLengths(const Lengths& l) : cu_q(l.cu_seqlens_q), cu_kv(l.cu_seqlens_kv) {
    c.struct_size = sizeof(c);
    c.batch = l.batch, c.s_q = l.s_q, c.s_kv = l.s_kv, c.h_q = l.h_q, c.h_kv = l.h_kv;
    c.cu_seqlens_q = cu_q.get(), c.cu_seqlens_kv = cu_kv.get();
  }
  CLengths(const CLengths&) = delete;
  CLengths& operator=(const CLengths&) = delete;
  View cu_q, cu_kv;
  anymask_lengths c = {};
};

}  // namespace detail

// ----------------------------------------------------------------- masks

// How row q of a call with unequal lengths stands among the keys: at p = q + s_kv - s_q, or at p = q.
enum class Align : uint8_t { bottom_right, top_left };

// What is kept, as a value: immutable, cheap to copy, safe to share between threads. True = attend.
class Mask {
 public:
  Mask() = default;  // full: keeps every pair

  // One argument of a kind, for leaf(). `name` empty: by position.
  struct Argument {
    std::string name;
    anymask_argument_type type = ANYMASK_ARG_INT;
    int64_t integer = 0;
    double real = 0;
    std::vector<int64_t> ints = {};
    Array array = {};
    std::string text = {};
    std::vector<Mask> mask = {};  // one, for ANYMASK_ARG_MASK
  };

  // Any kind by name: leaf("window", {{.type = ANYMASK_ARG_INT, .integer = 1023}, ...}). The functions below are nicer.
  static Mask leaf(const std::string& kind, std::span<const Argument> arguments) {
    std::vector<anymask_argument> c(arguments.size());
    std::vector<DLTensor> tensors(arguments.size());
    std::vector<Tensor> views(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& a = arguments[i];
      c[i] = {};
      c[i].name = a.name.empty() ? nullptr : a.name.c_str();
      c[i].type = a.type;
      c[i].integer = a.integer;
      c[i].real = a.real;
      c[i].ints = a.ints.data();
      c[i].count = static_cast<int64_t>(a.ints.size());
      c[i].text = a.text.c_str();
      c[i].mask = a.mask.empty() ? nullptr : a.mask[0].handle();
      if (a.type == ANYMASK_ARG_ARRAY) {
        views[i] = a.array.tensor();
        tensors[i] = views[i].dlpack();
        c[i].array = {a.array.name().empty() ? nullptr : a.array.name().c_str(), &tensors[i], a.array.copy() ? 1 : 0};
      }
    }
    return take([&](anymask_mask_t* out) {
      return anymask_mask_leaf(kind.c_str(), c.data(), static_cast<int64_t>(c.size()), out);
    });
  }

  // The text form: `causal & documents(@cu) | keys(0, 4)`. Arrays are found by the name given with Array::named.
  static Mask parse(const std::string& text, std::span<const Array> arrays = {}) {
    std::vector<Tensor> views(arrays.size());
    std::vector<DLTensor> tensors(arrays.size());
    std::vector<anymask_named_array> c(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      views[i] = arrays[i].tensor();
      tensors[i] = views[i].dlpack();
      c[i] = {arrays[i].name().c_str(), &tensors[i], arrays[i].copy() ? 1 : 0};
    }
    return take([&](anymask_mask_t* out) {
      return anymask_mask_parse(text.c_str(), c.data(), static_cast<int64_t>(c.size()), out);
    });
  }

  // Versioned bytes, arrays contained. Unknown versions and corrupt bytes are refused.
  static Mask from_bytes(std::span<const uint8_t> bytes) {
    return take([&](anymask_mask_t* out) { return anymask_mask_from_bytes(bytes.data(), bytes.size(), out); });
  }
  std::vector<uint8_t> bytes() const {
    uint8_t* data = nullptr;
    size_t size = 0;
    detail::check(anymask_mask_to_bytes(handle(), &data, &size));
    const std::unique_ptr<uint8_t, void (*)(void*)> owner(data, anymask_free);
    return std::vector<uint8_t>(data, data + size);
  }

  // Text that parses back to an equal mask.
  std::string str() const {
    char* text = nullptr;
    detail::check(anymask_mask_text(handle(), &text));
    return detail::take(text);
  }
  // 128 bits over the expression and the contents of its arrays.
  std::array<uint64_t, 2> digest() const {
    std::array<uint64_t, 2> d = {};
    detail::check(anymask_mask_digest(handle(), d.data()));
    return d;
  }

  // Pairs kept, and pairs in all, over every sequence and q head.
  struct Count {
    int64_t kept = 0, pairs = 0;
  };
  Count count(const Lengths& lengths) const {
    const detail::CLengths c(lengths);
    Count n;
    detail::check(anymask_mask_count(handle(), &c.c, &n.kept, &n.pairs));
    return n;
  }
  // The same mask, holding what its topk selects at these lengths: forward, backward and plans at them select nothing
  // again. Arrays it borrows must not change as long as it is used; one that copied its arrays holds by itself what it
  // selected last. Compose first, select last.
  Mask select(const Lengths& lengths) const {
    const detail::CLengths c(lengths);
    return take([&](anymask_mask_t* out) { return anymask_mask_select(handle(), &c.c, out); });
  }
  // The kept share, 0 to 1; 0 when there are no pairs.
  double density(const Lengths& lengths) const {
    const Count n = count(lengths);
    return n.pairs == 0 ? 0.0 : static_cast<double>(n.kept) / static_cast<double>(n.pairs);
  }
  // Elements of one plane into `out` [rows, cols] (bool or uint8): rows from q_begin, keys from kv_begin.
  void dense(const Lengths& lengths, const Tensor& out, int64_t sequence = 0, int64_t head = 0, int64_t q_begin = 0,
             int64_t kv_begin = 0) const {
    const detail::CLengths c(lengths);
    const detail::View view(out);
    detail::check(anymask_mask_dense(handle(), &c.c, sequence, head, q_begin, kv_begin, view.get()));
  }
  // Kept share of each cell of a picture of one plane, into `out` [rows, cols] float32.
  void coverage(const Lengths& lengths, const Tensor& out, int64_t sequence = 0, int64_t head = 0) const {
    const detail::CLengths c(lengths);
    const detail::View view(out);
    detail::check(anymask_mask_coverage(handle(), &c.c, sequence, head, view.get()));
  }

  friend Mask operator&(const Mask& a, const Mask& b) {
    return take([&](anymask_mask_t* out) { return anymask_mask_and(a.handle(), b.handle(), out); });
  }
  friend Mask operator|(const Mask& a, const Mask& b) {
    return take([&](anymask_mask_t* out) { return anymask_mask_or(a.handle(), b.handle(), out); });
  }
  friend Mask operator~(const Mask& a) {
    return take([&](anymask_mask_t* out) { return anymask_mask_not(a.handle(), out); });
  }
  // The same expression and the same contents of its arrays; names do not matter.
  friend bool operator==(const Mask& a, const Mask& b) {
    int32_t equal = 0;
    detail::check(anymask_mask_equal(a.handle(), b.handle(), &equal));
    return equal != 0;
  }
  friend std::ostream& operator<<(std::ostream& out, const Mask& m) { return out << m.str(); }

  // The C handle; lives as long as any copy of this mask. Null for a default-made one passed as an option: full.
  anymask_mask_t get() const { return handle_.get(); }
  // The same, never null.
  anymask_mask_t handle() const { return handle_ ? handle_.get() : full_handle(); }

  // Runs a C function that makes a mask.
  template <class Make>
  static Mask take(Make&& make) {
    anymask_mask_t raw = nullptr;
    detail::check(make(&raw));
    Mask m;
    m.handle_ = std::shared_ptr<anymask_mask_s>(raw, anymask_mask_free);
    return m;
  }

 private:
  static anymask_mask_t full_handle() {
    static const Mask all = leaf("full", {});
    return all.handle_.get();
  }
  std::shared_ptr<anymask_mask_s> handle_;
};

// ----------------------------------------------------------------- plans

struct PlanOptions {
  int32_t tile_m = 0, tile_n = 0;  // 0: the CPU kernel's own; tile_n is a multiple of 64
  bool transposed = false;         // rows are keys: the plan of dK and dV
  float split_cost = 0;            // rows costlier than so many tiles are split; 0: never
};

// Which tiles run, as plain arrays. Immutable; copies share them.
class Plan {
 public:
  Plan(const Mask& mask, const Lengths& lengths, const PlanOptions& options = {}) {
    const detail::CLengths c(lengths);
    anymask_plan_options o = {};
    o.struct_size = sizeof(o);
    o.tile_m = options.tile_m, o.tile_n = options.tile_n;
    o.transposed = options.transposed ? 1 : 0;
    o.split_cost = options.split_cost;
    anymask_plan_t raw = nullptr;
    detail::check(anymask_plan_create(mask.handle(), &c.c, &o, &raw));
    handle_ = std::shared_ptr<anymask_plan_s>(raw, anymask_plan_free);
    view_.struct_size = sizeof(view_);
    detail::check(anymask_plan_get(raw, &view_));
  }

  // Sizes, statistics and pointers; the pointers live as long as any copy of this plan.
  const anymask_plan_view& view() const { return view_; }
  std::span<const anymask_plan_plane> planes() const { return {view_.planes, static_cast<size_t>(view_.num_planes)}; }
  std::span<const int32_t> plane_of() const {
    return {view_.plane_of, static_cast<size_t>(view_.num_sequences * view_.heads)};
  }
  std::span<const int64_t> row_begin() const { return {view_.row_begin, static_cast<size_t>(view_.num_rows + 1)}; }
  std::span<const anymask_run> runs() const { return {view_.runs, static_cast<size_t>(view_.num_runs)}; }
  std::span<const anymask_work_item> work() const { return {view_.work, static_cast<size_t>(view_.num_work)}; }
  // The runs of one row of tiles of a plane.
  std::span<const anymask_run> row(const anymask_plan_plane& plane, int32_t m_block) const {
    const int64_t* begin = view_.row_begin + plane.first_row + m_block;
    return runs().subspan(static_cast<size_t>(begin[0]), static_cast<size_t>(begin[1] - begin[0]));
  }
  // Bit tile `index`: tile_m rows of tile_n / 64 words; bit i of word w is column 64 * w + i.
  std::span<const uint64_t> bit_tile(int64_t index) const {
    const int64_t words = int64_t{view_.tile_m} * (view_.tile_n / 64);
    return {view_.bit_tiles + index * words, static_cast<size_t>(words)};
  }

 private:
  std::shared_ptr<anymask_plan_s> handle_;
  anymask_plan_view view_ = {};
};

inline anymask_cache_stats plan_cache_stats() { return anymask_plan_cache_stats(); }
inline void set_plan_cache_limit(int64_t bytes) { anymask_plan_cache_limit(bytes); }  // 0 empties and disables it

// ------------------------------------------------------------- attention

// What is computed. "None" fields (default-made tensors) are not used.
struct Options {
  Mask mask = {};    // full by default
  Tensor bias = {};  // [b | 1, h_q | h_kv | 1, s_q | 1, s_kv], or [s_q | 1, s_kv]; added after the softcap
  std::optional<double> scale = {};  // 1 / sqrt(d_qk) by default
  double softcap = 0;                // 0: none; else s = softcap * tanh(s / softcap)
  Tensor alibi_slopes = {};          // [h_q] or [b, h_q]: adds -slope * |p - kv|
  Tensor sinks = {};                 // [h_q]: a logit in the denominator only
  Tensor cu_seqlens_q = {};          // int32 or int64 [n + 1]: packed tensors [total, heads, dim]
  Tensor cu_seqlens_kv = {};         // none: as cu_seqlens_q
  // Backward only.
  Tensor dlse = {};    // [b, h_q, s_q] float32: gradient flowing in through lse
  Tensor dbias = {};   // written: the bias's shape, float32 or the bias's type
  Tensor dsinks = {};  // written: [h_q]
};

// How and where it is computed.
struct Context {
  const char* backend =
      "auto";               // "auto" (by the tensors' device), "cpu", "cuda", "reference" (double precision), "naive"
  int32_t num_threads = 0;  // CPU; 0: all this process may use. Results do not depend on it
  bool deterministic = false;  // CUDA backward; a CPU always is
  void* stream = nullptr;      // CUDA
  void* workspace = nullptr;   // device memory, of at least workspace_bytes(...)
  size_t workspace_bytes = 0;
  // CPU: asked now and then by the calling thread, at most every 50 ms; true stops the call (Status::interrupted). It
  // must not throw.
  std::function<bool()> interrupted = {};
};

enum class Direction : uint8_t { forward, backward };

namespace detail {

struct COptions {
  COptions(const Options& o, const Context& ctx)
      : bias(o.bias),
        alibi(o.alibi_slopes),
        sinks(o.sinks),
        cu_q(o.cu_seqlens_q),
        cu_kv(o.cu_seqlens_kv),
        dlse(o.dlse),
        dbias(o.dbias),
        dsinks(o.dsinks),
        scale(o.scale.value_or(0)) {
    c.struct_size = sizeof(c);
    c.mask = o.mask.get();
    c.softmax_scale = o.scale ? &scale : nullptr;
    c.softcap = o.softcap;
    c.bias = bias.get(), c.alibi_slopes = alibi.get(), c.sinks = sinks.get();
    c.cu_seqlens_q = cu_q.get(), c.cu_seqlens_kv = cu_kv.get();
    c.deterministic = ctx.deterministic ? 1 : 0;
    c.num_threads = ctx.num_threads;
    c.backend = ctx.backend;
    c.stream = ctx.stream;
    c.workspace = ctx.workspace, c.workspace_bytes = ctx.workspace_bytes;
    c.dlse = dlse.get(), c.dbias = dbias.get(), c.dsinks = dsinks.get();
    if (ctx.interrupted) {
      c.interrupted = [](void* function) -> int32_t {
        return (*static_cast<const std::function<bool()>*>(function))();
      };
      c.interrupted_context = const_cast<std::function<bool()>*>(&ctx.interrupted);
    }
  }
  COptions(const COptions&) = delete;
  COptions& operator=(const COptions&) = delete;
  View bias, alibi, sinks, cu_q, cu_kv, dlse, dbias, dsinks;
  double scale;
  anymask_options c = {};
};

}  // namespace detail

// out = softmax(scale * q k^T + ..., masked) v. Give Tensor{} for lse if it is not wanted.
// q [b, s_q, h_q, d_qk], k [b, s_kv, h_kv, d_qk], v [b, s_kv, h_kv, d_v], out [b, s_q, h_q, d_v]: one type of float32,
// float16, bfloat16; lse [b, h_q, s_q] float32. Rows that keep nothing give out 0 and lse -inf (a sink: lse = sink). On
// error nothing is written.
inline void attention_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
                              const Options& options = {}, const Context& context = {}) {
  const detail::View q_(q), k_(k), v_(v), out_(out), lse_(lse);
  const detail::COptions o(options, context);
  detail::check(anymask_forward(q_.get(), k_.get(), v_.get(), out_.get(), lse_.get(), &o.c));
}

// Gradients of sum(dout * out) (+ sum(dlse * lse)). out and lse are the forward's, with the same options. dq, dk, dv
// have the shapes of q, k, v; dbias and dsinks are written when they are given in the options.
inline void attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                               const Tensor& lse, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                               const Options& options = {}, const Context& context = {}) {
  const detail::View dout_(dout), q_(q), k_(k), v_(v), out_(out), lse_(lse), dq_(dq), dk_(dk), dv_(dv);
  const detail::COptions o(options, context);
  detail::check(anymask_backward(dout_.get(), q_.get(), k_.get(), v_.get(), out_.get(), lse_.get(), dq_.get(),
                                 dk_.get(), dv_.get(), &o.c));
}

// Device memory the call needs, in bytes (0 on a CPU). Only shapes, types and devices count.
inline size_t workspace_bytes(const Tensor& q, const Tensor& k, const Tensor& v, const Options& options = {},
                              const Context& context = {}, Direction direction = Direction::forward) {
  const detail::View q_(q), k_(k), v_(v);
  const detail::COptions o(options, context);
  size_t bytes = 0;
  detail::check(anymask_workspace_bytes(q_.get(), k_.get(), v_.get(), &o.c, direction == Direction::backward, &bytes));
  return bytes;
}

// What would run and why, as JSON (anymask_explain). Only shapes, types and devices count.
inline std::string explain(const Tensor& q, const Tensor& k, const Tensor& v, const Options& options = {},
                           const Context& context = {}, Direction direction = Direction::forward) {
  const detail::View q_(q), k_(k), v_(v);
  const detail::COptions o(options, context);
  char* json = nullptr;
  detail::check(anymask_explain(q_.get(), k_.get(), v_.get(), &o.c, direction == Direction::backward, &json));
  return detail::take(json);
}

// --------------------------------------------------------------- machine

// Which backends can run here, and if not, why, as JSON (anymask_backends).
inline std::string backends() {
  char* json = nullptr;
  detail::check(anymask_backends(&json));
  return detail::take(json);
}

// Multiply-add rate measured now, in FLOP/s. DType::float32 (FMA), or DType::bfloat16 (bf16 dot product; 0 where the
// processor has none).
inline double cpu_peak(DType dtype = DType::float32, int32_t num_threads = 0) {
  double flops = 0;
  const char* name = dtype == DType::float32 ? "float32" : dtype == DType::bfloat16 ? "bfloat16" : "another type";
  detail::check(anymask_cpu_peak(name, num_threads, &flops));
  return flops;
}
// That of the fp32 forward's two products alone, on packed operands of this head dimension.
inline double cpu_products(int32_t head_dim, int32_t num_threads = 0) {
  double flops = 0;
  detail::check(anymask_cpu_products(head_dim, num_threads, &flops));
  return flops;
}
// Vector targets compiled in and usable here, separated by spaces, best first.
inline std::string cpu_targets() {
  char* text = nullptr;
  detail::check(anymask_cpu_targets(&text));
  return detail::take(text);
}
// Forces one of them (for tests); "" for the best again.
inline void force_cpu_target(const std::string& name) { detail::check(anymask_cpu_force_target(name.c_str())); }

}  // namespace v0
}  // namespace anymask

#include <anymask/masks.hpp>

#endif  // ANYMASK_ANYMASK_HPP_
