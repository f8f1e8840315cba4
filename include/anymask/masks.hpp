// The masks, one function a kind: part of anymask.hpp, which includes this file at its end.
#ifndef ANYMASK_MASKS_HPP_
#define ANYMASK_MASKS_HPP_

#include <anymask/anymask.hpp>

namespace anymask {
inline namespace v0 {

namespace detail {

inline Mask::Argument integer(int64_t value, std::string name = {}) {
  return {.name = std::move(name), .type = ANYMASK_ARG_INT, .integer = value};
}
inline Mask::Argument real(double value, std::string name = {}) {
  return {.name = std::move(name), .type = ANYMASK_ARG_REAL, .real = value};
}
inline Mask::Argument array(const Array& value, std::string name = {}) {
  if (value.inline_list() && value.name().empty())
    return {.name = std::move(name), .type = ANYMASK_ARG_INTS, .ints = value.ints()};
  return {.name = std::move(name), .type = ANYMASK_ARG_ARRAY, .array = value};
}
inline Mask make(const char* kind, std::vector<Mask::Argument> arguments, Align align = Align::bottom_right) {
  if (align == Align::top_left) arguments.push_back({.name = "align", .type = ANYMASK_ARG_TEXT, .text = "top_left"});
  return Mask::leaf(kind, arguments);
}

}  // namespace detail

// One function a kind. p is the position of row q (see Align); arrays with a query axis are indexed by the row q.
// Arguments are checked as far as possible here, and against the lengths where the mask is used.

// Keeps every pair.
inline Mask full() { return detail::make("full", {}); }
// Keeps nothing.
inline Mask none() { return detail::make("none", {}); }
// kv <= p
inline Mask causal(Align align = Align::bottom_right) { return detail::make("causal", {}, align); }
// p - left <= kv <= p + right; -1 leaves a side open.
inline Mask window(int64_t left, int64_t right, Align align = Align::bottom_right) {
  return detail::make("window", {detail::integer(left), detail::integer(right)}, align);
}
// begin <= kv < end
inline Mask keys(int64_t begin, int64_t end) {
  return detail::make("keys", {detail::integer(begin), detail::integer(end)});
}
// begin <= p < end
inline Mask positions(int64_t begin, int64_t end, Align align = Align::bottom_right) {
  return detail::make("positions", {detail::integer(begin), detail::integer(end)}, align);
}
// kv < n (causal() | prefix(n) is prefix-LM)
inline Mask prefix(int64_t n) { return detail::make("prefix", {detail::integer(n)}); }
// kv < n[batch entry]; n: integers [b].
inline Mask prefix(const Array& n) { return detail::make("prefix", {detail::array(n)}); }
// The same document. cu: offsets [n + 1] over positions, from 0 to s_kv; [b, n + 1] gives each batch entry its own.
inline Mask documents(const Array& cu, Align align = Align::bottom_right) {
  return detail::make("documents", {detail::array(cu)}, align);
}
// The same document, with one offsets array over rows (ends at s_q) and one over keys (ends at s_kv).
inline Mask documents(const Array& cu, const Array& cu_kv) {
  return detail::make("documents", {detail::array(cu), detail::array(cu_kv)});
}
// p / size == kv / size
inline Mask chunked(int64_t size, Align align = Align::bottom_right) {
  return detail::make("chunked", {detail::integer(size)}, align);
}
// (p - kv) mod n == 0 (with window: dilated windows)
inline Mask stride(int64_t n, Align align = Align::bottom_right) {
  return detail::make("stride", {detail::integer(n)}, align);
}
// kv <= p and (kv < n, or p and kv in the same segment). lengths: integers [segments]; n + sum(lengths) = s_kv.
inline Mask shared_prefix(int64_t n, const Array& lengths, Align align = Align::bottom_right) {
  return detail::make("shared_prefix", {detail::integer(n), detail::array(lengths)}, align);
}
// kv < prefix and kv <= p, or node kv - prefix is node p - prefix or an ancestor of it. parents: integers [n] or [b,
// n], parents[i] < i, -1 a root. No prefix given: s_kv - n.
inline Mask tree(const Array& parents, std::optional<int64_t> prefix_length = {}, Align align = Align::bottom_right) {
  std::vector<Mask::Argument> arguments = {detail::array(parents)};
  if (prefix_length) arguments.push_back(detail::integer(*prefix_length, "prefix"));
  return detail::make("tree", std::move(arguments), align);
}
// map[q / tile_q, kv / tile_kv]; map: bool or uint8 [ceil(s_q / tile_q), ceil(s_kv / tile_kv)], optionally [heads, ..]
// or [b, heads, ..].
inline Mask blocks(const Array& map, int64_t tile_q, int64_t tile_kv) {
  return detail::make("blocks", {detail::array(map), detail::integer(tile_q), detail::integer(tile_kv)});
}
// Packed bits: uint8 [s_q | 1, ceil(s_kv / 8)], or 4-d with [b | 1, heads | 1] before it; little-endian in a byte.
inline Mask bits(const Array& packed) { return detail::make("bits", {detail::array(packed)}); }
// Booleans: bool or uint8 [s_q | 1, s_kv], or 4-d with [b | 1, heads | 1] before it.
inline Mask dense(const Array& array) { return detail::make("dense", {detail::array(array)}); }
// begin[q, i] <= kv < end[q, i] for some i; integers [s_q, n], or 4-d with [b | 1, heads | 1] before it.
inline Mask row_intervals(const Array& begin, const Array& end) {
  return detail::make("row_intervals", {detail::array(begin), detail::array(end)});
}
// begin[kv, i] <= q < end[kv, i] for some i; integers [s_kv, n], or 4-d with [b | 1, heads | 1] before it.
inline Mask col_intervals(const Array& begin, const Array& end) {
  return detail::make("col_intervals", {detail::array(begin), detail::array(end)});
}
// NATTEN's neighbourhoods: exactly `kernel` (odd) neighbours an axis of a 1-3-d grid flattened row-major, the window
// shifted inward at the edges; with a dilation, among the positions of the same residue.
inline Mask neighborhood(const Array& shape, const Array& kernel, const Array& dilation = {},
                         Align align = Align::bottom_right) {
  std::vector<Mask::Argument> arguments = {detail::array(shape), detail::array(kernel)};
  if (dilation.defined()) arguments.push_back(detail::array(dilation, "dilation"));
  return detail::make("neighborhood", std::move(arguments), align);
}
// The noisy + clean mask of block diffusion training over 2 * seq positions, in blocks of `block`.
inline Mask block_diffusion(int64_t seq, int64_t block, Align align = Align::bottom_right) {
  return detail::make("block_diffusion", {detail::integer(seq), detail::integer(block)}, align);
}
// bias >= t; bias: floating, [s_q | 1, s_kv], or 4-d with [b | 1, heads | 1] before it. NaN is never kept.
inline Mask threshold(const Array& bias, double t) {
  return detail::make("threshold", {detail::array(bias), detail::real(t)});
}

// The `window` largest biases among the keys that `among` keeps (all by default). Ties keep the lower key; NaN and -inf
// are never kept; with fewer candidates than `window`, all are. bias: as threshold's.
inline Mask topk(const Array& bias, int64_t window, std::optional<Mask> among = {}) {
  std::vector<Mask::Argument> arguments = {detail::array(bias), detail::integer(window)};
  if (among) arguments.push_back({.name = "among", .type = ANYMASK_ARG_MASK, .mask = {*std::move(among)}});
  return detail::make("topk", std::move(arguments));
}

namespace detail {

inline std::vector<anymask_mask_t> handles(std::span<const Mask> masks) {
  std::vector<anymask_mask_t> c;
  c.reserve(masks.size());
  for (const Mask& m : masks) c.push_back(m.handle());
  return c;
}

}  // namespace detail

// Its own mask for each batch entry (or packed sequence), or for each head (h_kv or h_q of them). Equal ones share
// their plans.
inline Mask per_batch(std::span<const Mask> masks) {
  const auto c = detail::handles(masks);
  return Mask::take(
      [&](anymask_mask_t* out) { return anymask_mask_per_batch(c.data(), static_cast<int64_t>(c.size()), out); });
}
inline Mask per_batch(std::initializer_list<Mask> masks) { return per_batch(std::span(masks.begin(), masks.size())); }
inline Mask per_head(std::span<const Mask> masks) {
  const auto c = detail::handles(masks);
  return Mask::take(
      [&](anymask_mask_t* out) { return anymask_mask_per_head(c.data(), static_cast<int64_t>(c.size()), out); });
}
inline Mask per_head(std::initializer_list<Mask> masks) { return per_head(std::span(masks.begin(), masks.size())); }

// Text to mask; see Mask::parse. parse("causal & documents(@cu)", {Array(cu).named("cu")})
inline Mask parse(const std::string& text, std::span<const Array> arrays) { return Mask::parse(text, arrays); }
inline Mask parse(const std::string& text, std::initializer_list<Array> arrays = {}) {
  return Mask::parse(text, std::span(arrays.begin(), arrays.size()));
}

// A random valid mask of every kind for those lengths, for tests: the same seed gives the same mask.
inline Mask random_mask(uint64_t seed, const Lengths& lengths, int32_t leaves = 4) {
  const detail::CLengths c(lengths);
  return Mask::take([&](anymask_mask_t* out) { return anymask_mask_random(seed, &c.c, leaves, out); });
}

// Every kind with its arguments, as JSON (anymask_mask_kinds).
inline std::string mask_kinds() {
  char* json = nullptr;
  detail::check(anymask_mask_kinds(&json));
  return detail::take(json);
}

}  // namespace v0
}  // namespace anymask

#endif  // ANYMASK_MASKS_HPP_
