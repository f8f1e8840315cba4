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

// The larger of x and low, in each lane; NaN where x is NaN. On x86 the maximum gives its second operand then.
template <class D>
HWY_INLINE hn::Vec<D> AtLeast(D d, hn::Vec<D> low, hn::Vec<D> x) {
  (void)d;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

// 2^x for x <= 127, relative error below 2.5e-7 down to 2^-126. Exactly 1 at 0, exactly 0 below -126.5 (so -inf gives
// 0); NaN stays NaN. x = n + r with r in [-0.5, 0.5]: a polynomial of degree 5 for 2^r (minimax error 9.2e-8 with the
// constant held at 1: a running maximum that stays must not rescale anything), times 2^n. Adding 1.5 * 2^23 + 127
// rounds x to an integer and leaves n + 127 in the low bits of the sum, which shifted to the exponent are 2^n: at n =
// -127, where x is held, that is 0. Eleven instructions.
template <class D>
HWY_INLINE hn::Vec<D> Exp2(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const auto magic = hn::Set(d, 12582912.f + 127.f);
  x = AtLeast(d, hn::Set(d, -127.f), x);
  const auto shifted = hn::Add(x, magic);
  const auto r = hn::Sub(x, hn::Sub(shifted, magic));
  auto p = hn::MulAdd(hn::Set(d, 0.00132647198f), r, hn::Set(d, 0.00967151315f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555073377f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240222421f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693146978f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted))));
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
