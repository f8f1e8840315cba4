// The passes of a selection over a row of codes. One source, compiled for what every processor has and, on x86-64, for
// AVX2: the loops are plain and the compiler's to vectorise, so that no other header is needed below src/cpu.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#define ANYMASK_SELECT_AVX2 1
#endif

namespace anymask {

inline constexpr int64_t select_block = 128;  // codes; rows are padded to whole blocks
inline int64_t select_padded(int64_t count) { return (count + select_block - 1) / select_block * select_block; }

// T: the type of a bias's bits. Sizes are whole blocks, but for `encode`.
template <class T>
struct SelectKernels {
  using Code = std::make_signed_t<T>;
  // Codes as BiasCodes::code gives them; NaN becomes -infinity.
  void (*encode)(const T* values, int64_t count, Code infinity, Code* codes);
  int64_t (*count_above)(const Code* codes, int64_t size, Code than);
  int64_t (*count_equal)(const Code* codes, int64_t size, Code to);
  Code (*least_above)(const Code* codes, int64_t size, Code than);  // there is one
};

namespace select_loops {

template <class T>
[[gnu::always_inline]] inline void encode(const T* values, int64_t count, std::make_signed_t<T> infinity,
                                          std::make_signed_t<T>* codes) {
  using Code = std::make_signed_t<T>;
  constexpr T magnitude_bits = static_cast<T>(~T{0}) >> 1;
  for (int64_t i = 0; i < count; ++i) {
    const auto sign = static_cast<Code>(static_cast<Code>(values[i]) >> (8 * sizeof(T) - 1));
    const auto magnitude = static_cast<Code>(values[i] & magnitude_bits);
    const auto code = static_cast<Code>((magnitude ^ sign) - sign);
    codes[i] = magnitude > infinity ? static_cast<Code>(-infinity) : code;
  }
}

// Counts stay in the type of the codes, where a vector has most lanes, and are added up before they can overflow.
template <class Code, class Test>
[[gnu::always_inline]] inline int64_t count(const Code* codes, int64_t size, Test test) {
  constexpr int64_t stretch = 128 * select_block;
  int64_t total = 0;
  for (int64_t begin = 0; begin < size; begin += stretch) {
    const int64_t end = std::min(size, begin + stretch);
    std::make_unsigned_t<Code> found = 0;
    for (int64_t i = begin; i < end; ++i) found = static_cast<std::make_unsigned_t<Code>>(found + test(codes[i]));
    total += found;
  }
  return total;
}

// The distance from `than`, unsigned: of codes not above it, it wraps to more than any other's, as infinity is less
// than half of the type's range from 0.
template <class Code>
[[gnu::always_inline]] inline Code least_above(const Code* codes, int64_t size, Code than) {
  using Distance = std::make_unsigned_t<Code>;
  const auto from = static_cast<Distance>(static_cast<Distance>(than) + 1);
  Distance least = std::numeric_limits<Distance>::max();
  for (int64_t i = 0; i < size; ++i) {
    const auto distance = static_cast<Distance>(static_cast<Distance>(codes[i]) - from);
    least = distance < least ? distance : least;
  }
  return static_cast<Code>(least + from);
}

// The four passes with these attributes.
#define ANYMASK_SELECT_PASSES(attributes)                                                 \
  template <class T>                                                                      \
  struct Passes {                                                                         \
    using Code = std::make_signed_t<T>;                                                   \
    attributes static void encode(const T* v, int64_t n, Code infinity, Code* out) {      \
      select_loops::encode(v, n, infinity, out);                                          \
    }                                                                                     \
    attributes static int64_t count_above(const Code* x, int64_t n, Code than) {          \
      return select_loops::count(                                                         \
          x, n, [than](Code c) __attribute__((always_inline)) { return c > than; });      \
    }                                                                                     \
    attributes static int64_t count_equal(const Code* x, int64_t n, Code to) {            \
      return select_loops::count(                                                         \
          x, n, [to](Code c) __attribute__((always_inline)) { return c == to; });         \
    }                                                                                     \
    attributes static Code least_above(const Code* x, int64_t n, Code than) {             \
      return select_loops::least_above(x, n, than);                                       \
    }                                                                                     \
    static constexpr SelectKernels<T> all{encode, count_above, count_equal, least_above}; \
  }

namespace baseline {
ANYMASK_SELECT_PASSES();
}
#if defined(ANYMASK_SELECT_AVX2)
namespace avx2 {
ANYMASK_SELECT_PASSES(__attribute__((target("avx2"))));
}
#endif
#undef ANYMASK_SELECT_PASSES

}  // namespace select_loops

template <class T>
const SelectKernels<T>& select_kernels() {
#if defined(ANYMASK_SELECT_AVX2)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return select_loops::avx2::Passes<T>::all;
#endif
  return select_loops::baseline::Passes<T>::all;
}

}  // namespace anymask
