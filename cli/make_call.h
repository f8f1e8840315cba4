// Calls made up for `verify` and `bench`: random non-zero tensors around a named case. The same seed, the same bits.
#pragma once

#include <cstdint>

#include "cli/call.h"
#include "tests/cases/cases.h"

namespace anymask::cli {

// Small, quick, good enough to fill tensors (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Mean 0, variance 1: the sum of four uniforms, which is near enough to normal and bounded by 3.5.
  double normal() {
    const uint64_t bits = next();
    const auto sum =
        static_cast<double>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    return (sum / 65535.0 - 2.0) * 1.7320508075688772;
  }

 private:
  uint64_t state_;
};

Tensor random_tensor(const char* name, ElementType type, std::vector<int64_t> shape, Random& random);
Tensor int_tensor(const char* name, const std::vector<int64_t>& values);  // int32, rank 1
// "bhq" as in AttentionCase::bias.
Tensor random_bias(const std::string& axes, ElementType type, int64_t batch, int64_t h_q, int64_t h_kv, int64_t s_q,
                   int64_t s_kv, Random& random);
Tensor random_alibi(int64_t batch, int64_t h_q, bool per_batch, Random& random);

Call make_call(const cases::AttentionCase& shape, ElementType type, bool backward, uint64_t seed);

}  // namespace anymask::cli
