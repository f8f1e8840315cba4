#include "cpu/bf16_dot.h"

#include "cpu/config.h"

#if defined(ANYMASK_HAVE_BF16_DOT)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace anymask::bf16_dot {

#if defined(ANYMASK_HAVE_BF16_DOT)

namespace {

// Every loop over rows and vectors is unrolled: 12 x 2 sums, 2 vectors of B, 1 broadcast of 32 registers.
template <int kRows, int kVectors, class A>
inline __attribute__((always_inline)) void multiply(const A& pair_of, const uint16_t* b, int64_t pairs,
                                                    __m512 (&acc)[kRows][kVectors]) {
  for (int64_t kk = 0; kk < pairs; ++kk) {
    __m512bh bv[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) bv[v] = (__m512bh)_mm512_loadu_si512(b + 32 * v);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512bh av = (__m512bh)_mm512_set1_epi32(pair_of(r, kk));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], av, bv[v]);
    }
    b += 2 * panel;
  }
}

inline int32_t load_pair(const uint16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return pair;
}

template <int kRows, int kVectors>
inline __attribute__((always_inline)) void accumulate_panel(const uint16_t* p, const Segment* segments,
                                                            int64_t num_segments, int64_t v_offset, const float* alpha,
                                                            float* o, int64_t o_stride) {
  __m512 acc[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const __m512 a = _mm512_set1_ps(alpha[r]);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_mul_ps(a, _mm512_loadu_ps(o + r * o_stride + 16 * v));
  }
  for (int64_t s = 0; s < num_segments; ++s) {
    const uint16_t* column = p + segments[s].column;
    multiply<kRows, kVectors>([&](int r, int64_t kk) { return load_pair(column + r * (2 * score_stride) + 2 * kk); },
                              segments[s].v + v_offset, segments[s].count / 2, acc);
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(o + r * o_stride + 16 * v, acc[r][v]);
  }
}

bool ask_processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool f = b & (1u << 16), dq = b & (1u << 17), bw = b & (1u << 30), vl = b & (1u << 31);
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return false;
  const bool bf16 = a & (1u << 5);
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return false;  // the system saves extended registers
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return f && dq && bw && vl && bf16 && (low & 0xe6u) == 0xe6u;  // xmm, ymm, opmask, both halves of zmm
}

bool ask_vendor() {
  unsigned highest = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &highest, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx &&
         d == signature_AMD_edx;
}

}  // namespace

bool available() {
  static const bool yes = ask_processor();
  return yes;
}

bool fast() {
  static const bool yes = available() && ask_vendor();
  return yes;
}

template <int kRows>
void scores_of(const uint16_t* q, const uint16_t* k, int64_t pairs, float scale, float* s) {
  __m512 acc[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
  multiply<kRows, 2>([&](int r, int64_t kk) { return load_pair(q + (kk * rows + r) * 2); }, k, pairs, acc);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_ps(s + r * score_stride, _mm512_mul_ps(acc[r][0], _mm512_set1_ps(scale)));
    _mm512_storeu_ps(s + r * score_stride + 16, _mm512_mul_ps(acc[r][1], _mm512_set1_ps(scale)));
  }
}

void scores(int64_t num_rows, const uint16_t* q, const uint16_t* k, int64_t pairs, float scale, float* s) {
  if (num_rows > few_rows) {
    scores_of<rows>(q, k, pairs, scale, s);
  } else {
    scores_of<few_rows>(q, k, pairs, scale, s);
  }
}

void accumulate(int64_t num_rows, const uint16_t* p, const Segment* segments, int64_t num_segments, int64_t v_offset,
                int columns, const float* alpha, float* o, int64_t o_stride) {
  if (columns <= 16) {
    accumulate_panel<rows, 1>(p, segments, num_segments, v_offset, alpha, o, o_stride);
  } else if (num_rows > few_rows) {
    accumulate_panel<rows, 2>(p, segments, num_segments, v_offset, alpha, o, o_stride);
  } else {
    accumulate_panel<few_rows, 2>(p, segments, num_segments, v_offset, alpha, o, o_stride);
  }
}

void narrow(const float* from, int64_t n, uint16_t* to) {
  for (int64_t i = 0; i < n; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
  }
}

double peak_work(int64_t iterations) {
  __m512 acc[24];
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) acc[i] = _mm512_setzero_ps();
  __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f003f00);
  for (int64_t it = 0; it < iterations; ++it) {
    __asm__ volatile("" : "+v"(x));
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) {
      acc[i] = _mm512_dpbf16_ps(acc[i], x, x);
      __asm__ volatile("" : "+v"(acc[i]));  // equal sums would be made one
    }
  }
  return static_cast<double>(iterations) * 24 * 64;
}

#else

bool available() { return false; }
bool fast() { return false; }
void scores(int64_t, const uint16_t*, const uint16_t*, int64_t, float, float*) {}
void accumulate(int64_t, const uint16_t*, const Segment*, int64_t, int64_t, int, const float*, float*, int64_t) {}
void narrow(const float*, int64_t, uint16_t*) {}
double peak_work(int64_t) { return 0; }

#endif

}  // namespace anymask::bf16_dot
