// The library's C interface with its results owned and its failures thrown.
#pragma once

#include <anymask/anymask.h>

#include <memory>
#include <string>

#include "cli/args.h"

namespace anymask::cli {

// Throws UsageError with the library's message, unless the call succeeded.
void check(anymask_status status);

// A string the library handed out.
std::string take(char* text);

struct MaskFree {
  void operator()(anymask_mask_s* mask) const { anymask_mask_free(mask); }
};
using MaskHandle = std::unique_ptr<anymask_mask_s, MaskFree>;

struct PlanFree {
  void operator()(anymask_plan_s* plan) const { anymask_plan_free(plan); }
};
using PlanHandle = std::unique_ptr<anymask_plan_s, PlanFree>;

}  // namespace anymask::cli
