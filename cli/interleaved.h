// Calls on a processor, each between two measurements of the peak: its clock, and what neighbours leave of it, change
// within seconds, so a call is compared with the milliseconds around it, and what is said is the median of such shares.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/call.h"

namespace anymask::cli {

// TFLOP/s of `threads` threads now; bf16 dot products where the processor has them, since the bf16 kernel uses them.
double cpu_peak_now(ElementType type, int64_t threads);

struct Interleaved {
  // What one call computes, and on what. With a head_dim the rate of the two products alone is measured beside it.
  double flops = 0;
  ElementType type = ElementType::f32;
  int64_t threads = 1, head_dim = 0;

  // Of each sample: milliseconds of a call, the peak around it in TFLOP/s, the call's share of it; and, with a
  // head_dim, milliseconds of the same work at the products' rate, and the call's share of that rate.
  std::vector<double> ms = {}, peaks = {}, shares = {}, products_ms = {}, of_products = {};
  double spent = 0;  // milliseconds of calls
  int repeats = 0;   // calls a sample: quick ones are repeated until 10 ms are spent

  void sample(const std::function<void()>& once);
};

}  // namespace anymask::cli
