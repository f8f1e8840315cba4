#include "cpu/targets.h"

#include <atomic>

#include "core/error.h"
#include "cpu/bf16_dot.h"
#include "cpu/simd.h"
#include "hwy/targets.h"

// Re-included for each target: what HWY_EXPORT lists is what was compiled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/targets.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace anymask {
namespace HWY_NAMESPACE {
int64_t ThisTarget() { return HWY_TARGET; }
}  // namespace HWY_NAMESPACE
}  // namespace anymask
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anymask {
HWY_EXPORT(ThisTarget);

namespace {

constexpr const char* bf16_name = "AVX3_BF16";
enum class Bf16Dot { where_fast, always, never };
std::atomic<Bf16Dot> bf16_dot_wanted{Bf16Dot::where_fast};

std::vector<int64_t> usable() {
  std::vector<int64_t> targets;
  int64_t bits = hwy::SupportedTargets() & HWY_TARGETS;
  while (bits != 0) {
    targets.push_back(bits & -bits);
    bits &= bits - 1;
  }
  return targets;
}

}  // namespace

std::vector<std::string> cpu_targets() {
  // Forcing hides the other targets from SupportedTargets: what was usable before is remembered.
  static const std::vector<int64_t> all = usable();
  std::vector<std::string> names;
  for (const int64_t target : all) {
    const std::string name = hwy::TargetName(target);
    const bool has_dot = name == "AVX3" && bf16_dot::available();
    if (has_dot && bf16_dot::fast()) names.emplace_back(bf16_name);
    names.push_back(name);
    if (has_dot && !bf16_dot::fast()) names.emplace_back(bf16_name);
  }
  return names;
}

std::string cpu_target() {
  const std::string name = hwy::TargetName(HWY_DYNAMIC_DISPATCH(ThisTarget)());
  return name == "AVX3" && use_bf16_dot() ? bf16_name : name;
}

void force_cpu_target(const std::string& name) {
  const std::vector<std::string> names = cpu_targets();
  int64_t forced = 0;
  bool known = name.empty();
  std::string list;
  for (const std::string& usable_name : names) {
    list += (list.empty() ? "" : ", ") + usable_name;
    known = known || usable_name == name;
  }
  if (!known)
    fail_invalid("cpu target: got \"", name, "\"; compiled in and usable on this processor: ", list,
                 ": use one of those");
  bf16_dot_wanted = name.empty() ? Bf16Dot::where_fast : name == bf16_name ? Bf16Dot::always : Bf16Dot::never;
  if (!name.empty()) {
    const std::string base = name == bf16_name ? "AVX3" : name;
    hwy::SetSupportedTargetsForTest(0);
    for (const int64_t target : usable()) {
      if (base == hwy::TargetName(target)) forced = target;
    }
  }
  hwy::SetSupportedTargetsForTest(forced);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

bool use_bf16_dot() {
  const Bf16Dot wanted = bf16_dot_wanted;
  return wanted != Bf16Dot::never && bf16_dot::available() && (wanted == Bf16Dot::always || bf16_dot::fast()) &&
         std::string_view(hwy::TargetName(HWY_DYNAMIC_DISPATCH(ThisTarget)())) == "AVX3";
}

}  // namespace anymask
#endif  // HWY_ONCE
