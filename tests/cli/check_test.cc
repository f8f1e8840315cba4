// The check itself: right results pass whole and sampled, wrong ones fail both ways.
#include "cli/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "cli/make_call.h"

namespace anymask::cli {
namespace {

constexpr double everything = std::numeric_limits<double>::infinity();
constexpr double little = 1;  // makes check_results sample

Results computed(const Call& call) {
  Results results = allocate_results(call, call.backward());
  forward(call, results);
  if (call.backward()) backward(call, results);
  return results;
}

cases::AttentionCase rich_case() {
  return {.name = "rich",
          .mask = "causal & window(50, 0) | keys(0, 2)",
          .b = 2,
          .s_q = 90,
          .s_kv = 120,
          .h_q = 4,
          .h_kv = 2,
          .d_qk = 32,
          .d_v = 16,
          .bias = "bgq",
          .softcap = 10,
          .alibi = true,
          .sinks = true,
          .dlse = true};
}

TEST(Check, RightResultsPassWholeAndSampled) {
  for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    const Call call = make_call(rich_case(), type, true, 3);
    const Results results = computed(call);
    for (const double budget : {everything, little}) {
      const CheckReport report = check_results(call, results, budget);
      EXPECT_TRUE(report.ok()) << name_of(type) << " " << report.scope << " " << report.worst().name << " "
                               << report.worst().error << " > " << report.worst().bound;
      EXPECT_EQ(report.sampled, budget == little);
    }
  }
}

TEST(Check, PackedSequencesAreSampledToo) {
  cases::AttentionCase shape{.name = "packed",
                             .mask = "causal",
                             .s_q = 200,
                             .s_kv = 300,
                             .h_q = 4,
                             .h_kv = 2,
                             .d_qk = 16,
                             .d_v = 16,
                             .dlse = true,
                             .cu_seqlens_q = {0, 10, 10, 200},
                             .cu_seqlens_kv = {0, 60, 70, 300}};
  const Call call = make_call(shape, ElementType::f32, true, 5);
  const Results results = computed(call);
  EXPECT_TRUE(check_results(call, results, everything).ok());
  const CheckReport report = check_results(call, results, little);
  EXPECT_TRUE(report.ok()) << report.worst().name << " " << report.worst().error << " > " << report.worst().bound;
}

void expect_refused(const Call& call, const Results& results, const std::string& name) {
  for (const double budget : {everything, little}) {
    const CheckReport report = check_results(call, results, budget);
    EXPECT_FALSE(report.ok()) << name << " " << budget;
    for (const TensorError& t : report.tensors) {
      EXPECT_TRUE(t.name != name || !t.ok()) << name << " " << budget;
    }
  }
}

TEST(Check, WrongOutputsFailWholeAndSampled) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    const Call call = make_call(rich_case(), type, true, 4);
    Results zeros = computed(call);
    zeros.out = make_tensor("out", type, zeros.out.shape);
    expect_refused(call, zeros, "out");

    Results nan = computed(call);
    set_element(nan.out, 0, NAN);  // row 0 is among the sampled ones
    expect_refused(call, nan, "out");

    Results lse = computed(call);
    set_element(lse.lse, 0, element(lse.lse, 0) + 1);
    expect_refused(call, lse, "lse");

    Results dq = computed(call);
    dq.dq = make_tensor("dq", type, dq.dq.shape);
    expect_refused(call, dq, "dq");
  }
}

TEST(Check, AWrongMaskIsSeen) {
  Call call = make_call(rich_case(), ElementType::f32, false, 4);
  const Results results = computed(call);
  cases::AttentionCase other = rich_case();
  other.mask = "causal & window(20, 0) | keys(0, 2)";
  call = make_call(other, ElementType::f32, false, 4);
  EXPECT_FALSE(check_results(call, results, everything).ok());
  EXPECT_FALSE(check_results(call, results, little).ok());
}

}  // namespace
}  // namespace anymask::cli
