// Loads and stores of fp32 vectors from and to fp32, bf16 and fp16 memory, and fetching ahead. Types in memory: float,
// Bf16, F16. Widening is exact; narrowing rounds to nearest even and keeps NaN a NaN.
#include <cstddef>
#include <cstdint>

#include "cpu/storage.h"

#if defined(ANYMASK_CPU_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_LOAD_INL_H_
#undef ANYMASK_CPU_LOAD_INL_H_
#else
#define ANYMASK_CPU_LOAD_INL_H_
#endif

#include "hwy/highway.h"

// Highway's emulation, where the processor lacks the instructions, loses infinities: those targets convert one by one.
#undef ANYMASK_F16_IN_HARDWARE
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
#define ANYMASK_F16_IN_HARDWARE 1
#else
#define ANYMASK_F16_IN_HARDWARE 0
#endif

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes(d) floats from unaligned memory.
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const Bf16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  const auto narrow = hn::LoadU(d16, &p->bits);
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, narrow)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const F16* p) {
#if ANYMASK_F16_IN_HARDWARE
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> df16;
  return hn::PromoteTo(d, hn::BitCast(df16, hn::LoadU(d16, &p->bits)));
#else
  HWY_ALIGN float lanes[HWY_LANES(float)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = to_float(p[i]);
  return hn::Load(d, lanes);
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> LoadFloats(D d, const Pair32* p) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::LoadU(du, &p->bits));
}

// Fetches rows into the second-level cache: rows far apart are beyond what the hardware foresees.
template <bool kToWrite = false>
HWY_INLINE void PrefetchRows(const void* x, int64_t stride, int64_t bytes, int64_t begin, int64_t end) {
  const char* first = static_cast<const char*>(x);
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(first + r * stride + i, kToWrite ? 1 : 0, 2);
  }
}

// to[0 .. n) = from[0 .. n) * scale. Reads and writes exactly n elements.
template <class T>
HWY_INLINE void LoadRow(const T* HWY_RESTRICT from, int64_t n, float scale, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vscale = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(LoadFloats(d, from + i), vscale), d, to + i);
  for (; i < n; ++i) to[i] = to_float(from[i]) * scale;
}

template <class D>
HWY_INLINE void StoreFloats(hn::Vec<D> v, D d, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void StoreFloats(hn::Vec<D> v, D, Bf16* p) {
  const hn::Rebind<uint32_t, D> du;
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto u = hn::BitCast(du, v);
  const auto even = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(even, hn::Set(du, 0x7fffu))));
  const auto nan = hn::Or(hn::ShiftRight<16>(u), hn::Set(du, 0x40u));
  const auto is_nan = hn::RebindMask(du, hn::Ne(v, v));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(is_nan, nan, rounded))), d16, &p->bits);
}
template <class D>
HWY_INLINE void StoreFloats(hn::Vec<D> v, D d, F16* p) {
#if ANYMASK_F16_IN_HARDWARE
  const hn::Rebind<hwy::float16_t, decltype(d)> df16;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  hn::StoreU(hn::BitCast(d16, hn::DemoteTo(df16, v)), d16, &p->bits);
#else
  HWY_ALIGN float lanes[HWY_LANES(float)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) from_float(lanes[i], p[i]);
#endif
}

// to[0 .. n) = from[0 .. n) * scale, narrowed. Reads and writes exactly n elements.
template <class T>
HWY_INLINE void StoreRow(const float* HWY_RESTRICT from, int64_t n, float scale, T* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vscale = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) StoreFloats(hn::Mul(hn::LoadU(d, from + i), vscale), d, to + i);
  for (; i < n; ++i) from_float(from[i] * scale, to[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
