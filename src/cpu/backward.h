// The CPU backward: dq, dk, dv, dbias, dsinks of one call, in one pass of five products over the transposed plan.
//
// Key-stationary: a task owns a chunk of up to 256 keys of one kv head, keeps their dK and dV in its own fp32 scratch
// while the rows of all q heads of the group stream by, and writes them once. dQ is summed in fp32, in dq itself when
// that is fp32, in a fixed order of chunks (backward_schedule.h): results are the same bits for any number of threads.
//
// Memory beyond inputs and outputs: about 0.6 MB (d = 64) to 2 MB (d = 256) a thread, 4 bytes a row and q head for
// delta; fp32 dQ of the heads in flight when dq is 16 bits wide; fp32 sums of a bias shared by heads or batch entries
// (the bias's own size when rows have their own biases, else 4 bytes a key and head).
#pragma once

#include <vector>

#include "backend/backend.h"
#include "core/problem.h"
#include "mask/mask.h"
#include "plan/builder.h"

namespace anymask {

// Writes problem.dq, dk, dv and, where they are defined, dbias and dsinks, whole. out and lse are the forward's.
void cpu_backward(const AttentionProblem& problem, const Mask& mask);

// The plan the backward asks for: rows are chunks of keys, columns blocks of 64 query rows.
PlanRequest backward_plan_request(const AttentionProblem& problem);

// What `explain` prints.
std::vector<Fact> backward_facts(const AttentionProblem& problem, const Mask& mask);

}  // namespace anymask
