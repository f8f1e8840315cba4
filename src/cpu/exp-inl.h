// 2^x and tanh on vectors of fp32.
#include <cstddef>

#if defined(ANYMASK_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ANYMASK_CPU_EXP_INL_H_
#undef ANYMASK_CPU_EXP_INL_H_
#else
#define ANYMASK_CPU_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^x for x <= 127, relative error below 2.5e-7. Exactly 1 at 0, exactly 0 below -126 (so -inf gives 0); NaN stays NaN.
// x = n + r with r in [-0.5, 0.5]: a polynomial of degree 5 for 2^r (minimax error 9.2e-8 with the constant held at 1:
// a running maximum that stays must not rescale anything), n added to the exponent. Adding 1.5 * 2^23 rounds x to an
// integer and leaves it in the low bits of the sum: one instruction less than round and convert.
template <class D>
HWY_INLINE hn::Vec<D> Exp2(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto magic = hn::Set(d, 12582912.f);
  const auto shifted = hn::Add(x, magic);
  const auto r = hn::Sub(x, hn::Sub(shifted, magic));
  auto p = hn::MulAdd(hn::Set(d, 0.00132647198f), r, hn::Set(d, 0.00967151315f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555073377f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240222421f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693146978f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  // A NaN's shifted bits may carry payload into the exponent: what x decides, x gives.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -126.f)), hn::IfThenElse(hn::Eq(x, x), scaled, x));
}

// tanh(x), relative error below 3e-7 everywhere: an odd polynomial (error 1.8e-8) below 0.625, where 1 - 2 / (e^2x + 1)
// would cancel.
template <class D>
HWY_INLINE hn::Vec<D> Tanh(D d, hn::Vec<D> x) {
  const auto magnitude = hn::Abs(x);
  const auto z = hn::Mul(x, x);
  auto p = hn::MulAdd(hn::Set(d, -0.00610494790f), z, hn::Set(d, 0.0210036411f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.0538524974f));
  p = hn::MulAdd(p, z, hn::Set(d, 0.133327823f));
  p = hn::MulAdd(p, z, hn::Set(d, -0.333333291f));
  const auto small = hn::MulAdd(hn::Mul(x, z), p, x);
  // Beyond 10 the result is 1 to the last bit. A NaN must not be lost in Min: it is put back by the last select.
  const auto clamped = hn::Min(magnitude, hn::Set(d, 10.f));
  const auto e = Exp2(d, hn::Mul(clamped, hn::Set(d, 2.885390082f)));  // 2 log2(e)
  const auto large = hn::Sub(hn::Set(d, 1.f), hn::Div(hn::Set(d, 2.f), hn::Add(e, hn::Set(d, 1.f))));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, hn::CopySign(large, x));
  return hn::IfThenElse(hn::Eq(x, x), finite, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();
#endif
