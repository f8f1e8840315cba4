// The threshold of a row: which value to count next, given how many keys reached those counted before.
//
// Values are their codes, integers in the order of the floats; count(c) = candidates whose code is at least c, which
// never rises. The bracket keeps count(low) >= window > count(high) and narrows until a count is the window itself or
// low and high are neighbours: then low is the smallest kept code, and of the keys that equal it the lowest are kept.
//
// A row begins at the threshold of the row before and goes on at its slope: rows of one bias are alike, and 5 counts do
// for 256 of 4,096 normal values where a search from nothing takes 13. Then false position: the code where a straight
// line through the bracket's ends meets the window, an end that stays counting half as much each time (Illinois), and
// the middle where two steps did not halve the bracket.
#pragma once

#include <cstdint>

#include "mask/leaf.h"

namespace anymask {

// What a row leaves for the next one.
struct TopkHint {
  int32_t code;     // its threshold
  float code_step;  // codes a key, near it; 0: there was no row before
};

class TopkSearch {
 public:
  // `lowest` is the code below all candidates, `highest` the one above: neither is ever counted. `candidates`: at most.
  ANYMASK_HOST_DEVICE TopkSearch(int32_t window, int32_t candidates, int32_t lowest, int32_t highest)
      : window_(window), low_(lowest), high_(highest), count_low_(candidates), lowest_(lowest), highest_(highest) {}

  ANYMASK_HOST_DEVICE bool done() const { return exact() || width() == 1; }
  // Kept are the codes from low() on; where not exact(), window - count_high() of those that equal low().
  ANYMASK_HOST_DEVICE bool exact() const { return count_low_ == window_ && low_ != lowest_; }
  ANYMASK_HOST_DEVICE int32_t low() const { return low_; }
  ANYMASK_HOST_DEVICE int32_t count_high() const { return count_high_; }
  // There are fewer candidates than the window: low() is `lowest`.
  ANYMASK_HOST_DEVICE bool all() const { return low_ == lowest_; }

  // The code to count, between low and high.
  ANYMASK_HOST_DEVICE int32_t next(const TopkHint& hint) const {
    const uint32_t codes = width();
    const bool below = low_ != lowest_, above = high_ != highest_;  // what was counted
    uint32_t up = codes / 2;                                        // from low on
    if (below && above) {
      if (halve_after_ > 0)
        up = static_cast<uint32_t>(quotient(surplus_, surplus_ + lack_) * static_cast<float>(codes) + 0.5f);
    } else if (hint.code_step > 0 && stride_ < 16) {
      if (!below && !above) {
        up = static_cast<uint32_t>(hint.code) - static_cast<uint32_t>(low_);
      } else {
        // As far as the hint's slope says, twice as far each time that was not enough.
        const float step = hint.code_step * stride_ * (below ? surplus_ : lack_);
        const uint32_t far = step < static_cast<float>(codes - 1) ? static_cast<uint32_t>(step) + 1 : codes - 1;
        up = below ? far : codes - far;
      }
    }
    up = up < 1 ? 1 : up > codes - 1 ? codes - 1 : up;
    return static_cast<int32_t>(static_cast<uint32_t>(low_) + up);
  }

  ANYMASK_HOST_DEVICE void counted(int32_t code, int32_t count) {
    const uint32_t before = width();
    const bool rises = count >= window_;
    if (rises) {
      low_ = code;
      count_low_ = count;
      surplus_ = static_cast<float>(count - window_);
      if (rose_ == 1) lack_ *= 0.5f;
      rose_ = 1;
    } else {
      high_ = code;
      count_high_ = count;
      lack_ = static_cast<float>(window_ - count);
      if (rose_ == 0) surplus_ *= 0.5f;
      rose_ = 0;
    }
    stride_ *= 2;
    const uint32_t codes = width();
    halve_after_ = codes <= before / 2 || halve_after_ == 0 ? 2 : halve_after_ - 1;
    // Of a bracket that was counted at both ends.
    if (count_low_ - count_high_ >= 8 && low_ != lowest_ && high_ != highest_) {
      near_codes_ = codes;
      near_keys_ = count_low_ - count_high_;
    }
  }

  ANYMASK_HOST_DEVICE TopkHint hint(const TopkHint& before) const {
    if (near_keys_ > 0) return {low_, quotient(static_cast<float>(near_codes_), static_cast<float>(near_keys_))};
    return {low_, before.code_step > 0 ? before.code_step : 1.0f};
  }

 private:
  // What is counted next may be rounded anyhow.
  static ANYMASK_HOST_DEVICE float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fdividef(a, b);
#else
    return a / b;
#endif
  }
  ANYMASK_HOST_DEVICE uint32_t width() const { return static_cast<uint32_t>(high_) - static_cast<uint32_t>(low_); }

  int32_t window_, low_, high_, count_low_, count_high_ = 0;
  int32_t lowest_, highest_, halve_after_ = 2, rose_ = -1;  // rose_: whether low was counted last; -1: nothing was
  // Counts beyond the window at low, short of it at high; half as much each time such an end stays.
  float surplus_ = 0, lack_ = 0, stride_ = 1;  // stride_: 2 to the power of counts
  uint32_t near_codes_ = 0;                    // between ends that 8 keys or more lie between
  int32_t near_keys_ = 0;
};

}  // namespace anymask
