#include "cli/interleaved.h"

#include <algorithm>

#include "cli/library.h"
#include "cli/timing.h"

namespace anymask::cli {

double cpu_peak_now(ElementType type, int64_t threads) {
  double peak = 0;
  if (type == ElementType::bf16) check(anymask_cpu_peak("bfloat16", static_cast<int32_t>(threads), &peak));
  if (peak == 0) check(anymask_cpu_peak("float32", static_cast<int32_t>(threads), &peak));
  return peak / 1e12;
}

void Interleaved::sample(const std::function<void()>& once) {
  if (repeats == 0) repeats = std::clamp(static_cast<int>(10 / std::max(milliseconds_of(once), 0.01)), 1, 1000);
  const double before = cpu_peak_now(type, threads);
  const double all = milliseconds_of([&] {
    for (int i = 0; i < repeats; ++i) once();
  });
  spent += all;
  ms.push_back(all / repeats);
  if (head_dim > 0) {
    double rate = 0;
    check(anymask_cpu_products(static_cast<int32_t>(head_dim), static_cast<int32_t>(threads), &rate));
    products_ms.push_back(1000 * flops / rate);
    of_products.push_back(products_ms.back() / ms.back());
  }
  const double peak = (before + cpu_peak_now(type, threads)) / 2;
  peaks.push_back(peak);
  shares.push_back(flops / ms.back() / 1e9 / peak);
}

}  // namespace anymask::cli
