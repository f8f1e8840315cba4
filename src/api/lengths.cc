#include "api/lengths.h"

#include "api/view.h"
#include "core/error.h"

namespace anymask {
namespace {

int64_t integer(const TensorView& view, int64_t index) {
  const int64_t at = index * view.stride[0];
  return view.dtype == DType::i32 ? view.as<const int32_t>()[at] : view.as<const int64_t>()[at];
}

// Starts at 0, never decreases, ends at `total`.
void check_offsets(const char* operation, const char* name, const TensorView& cu, int64_t total,
                   const char* total_name) {
  if (cu.rank != 1 || cu.shape[0] < 1)
    fail_invalid(operation, ": ", name, " has shape ", cu, "; expected [sequences + 1], offsets from 0 to ", total_name,
                 ": pass one offset more than there are sequences");
  if (!is_integer(cu.dtype))
    fail_invalid(operation, ": ", name, " is ", name_of(cu.dtype), "; expected int32 or int64: convert it");
  if (cu.device.kind != DeviceKind::cpu)
    fail_invalid(operation, ": ", name, " is on a CUDA device; expected the CPU: copy it");
  const int64_t last = cu.shape[0] - 1;
  if (integer(cu, 0) != 0)
    fail_invalid(operation, ": ", name, " starts at ", integer(cu, 0), "; offsets start at 0: put a 0 in front");
  for (int64_t i = 0; i < last; ++i) {
    const int64_t begin = integer(cu, i), end = integer(cu, i + 1);
    if (end < begin)
      fail_invalid(operation, ": ", name, " falls from ", begin, " to ", end, " at index ", i + 1,
                   "; offsets never decrease: give running sums of the lengths");
    check_tokens(operation, name, end - begin);
  }
  if (total >= 0 && integer(cu, last) != total)
    fail_invalid(operation, ": ", name, " ends at ", integer(cu, last), "; expected ", total_name, " = ", total,
                 ": offsets end at the length they cut");
}

}  // namespace

void check_tokens(const char* operation, const char* name, int64_t value) {
  if (value < 0 || value > kMaxTokens)
    fail_invalid(operation, ": ", name, " gives a sequence ", value, " tokens; expected 0 to ", kMaxTokens,
                 ": split the sequence");
}

void check_sequences(const char* operation, int64_t count) {
  if (count < 0 || count > kMaxSequences)
    fail_invalid(operation, ": there are ", count, " sequences; expected 0 to ", kMaxSequences, ": split the call");
}

std::vector<Sequence> packed_sequences(const char* operation, const TensorView& cu_q, const TensorView& cu_kv,
                                       int64_t total_q, int64_t total_kv) {
  check_offsets(operation, "cu_seqlens_q", cu_q, total_q, "total_q");
  const bool own_kv = cu_kv.defined();
  if (own_kv) {
    check_offsets(operation, "cu_seqlens_kv", cu_kv, total_kv, "total_kv");
    if (cu_kv.shape[0] != cu_q.shape[0])
      fail_invalid(operation, ": cu_seqlens_kv has ", cu_kv.shape[0], " offsets and cu_seqlens_q has ", cu_q.shape[0],
                   "; expected as many: both cut the same sequences");
  } else if (total_kv >= 0 && total_kv != total_q) {
    fail_invalid(operation, ": k has ", total_kv, " tokens and q has ", total_q,
                 ", but cu_seqlens_kv is not given: pass it where they differ");
  }
  const int64_t n = cu_q.shape[0] - 1;
  check_sequences(operation, n);
  std::vector<Sequence> sequences(static_cast<size_t>(n));
  const TensorView& keys = own_kv ? cu_kv : cu_q;
  for (int64_t i = 0; i < n; ++i) {
    Sequence& s = sequences[static_cast<size_t>(i)];
    s.q_begin = integer(cu_q, i);
    s.s_q = integer(cu_q, i + 1) - s.q_begin;
    s.kv_begin = integer(keys, i);
    s.s_kv = integer(keys, i + 1) - s.kv_begin;
  }
  return sequences;
}

void check_counts(const char* operation, const std::vector<Sequence>& sequences, int64_t h_q) {
  if (h_q > kMaxHeads || static_cast<int64_t>(sequences.size()) * h_q > kMaxPlanes)
    fail_invalid(operation, ": there are ", sequences.size(), " sequences with ", h_q,
                 " query heads; expected at most ", kMaxHeads, " heads, and ", kMaxPlanes,
                 " of both multiplied: split the call");
  int64_t sum = 0;
  for (const Sequence& s : sequences) {
    int64_t pairs = 0;
    if (__builtin_mul_overflow(s.s_q, s.s_kv, &pairs) || __builtin_mul_overflow(pairs, h_q, &pairs) ||
        __builtin_add_overflow(sum, pairs, &sum))
      fail_invalid(operation, ": ", sequences.size(), " sequences of up to ", s.s_q, " x ", s.s_kv, " pairs and ", h_q,
                   " heads are more than 2^63 pairs; expected a count that fits 64 bits: split the call");
  }
}

Lengths read_lengths(const char* operation, const anymask_lengths* given) {
  const anymask_lengths l = sized(operation, "lengths", required(operation, "lengths", given));
  Lengths lengths;
  lengths.h_q = l.h_q == 0 ? 1 : l.h_q;
  lengths.h_kv = l.h_kv == 0 ? 1 : l.h_kv;
  if (lengths.h_q < 0 || lengths.h_kv < 0 || lengths.h_q % lengths.h_kv != 0)
    fail_invalid(operation, ": lengths have h_q = ", l.h_q, " and h_kv = ", l.h_kv,
                 "; expected positive numbers, h_kv a divisor of h_q: use h_kv = 1 if in doubt");
  if (l.cu_seqlens_q != nullptr) {
    const TensorView cu_q = view_of(operation, "cu_seqlens_q", *l.cu_seqlens_q);
    const TensorView cu_kv =
        l.cu_seqlens_kv == nullptr ? TensorView{} : view_of(operation, "cu_seqlens_kv", *l.cu_seqlens_kv);
    lengths.sequences = packed_sequences(operation, cu_q, cu_kv, -1, -1);
  } else {
    if (l.cu_seqlens_kv != nullptr)
      fail_invalid(operation, ": cu_seqlens_kv is given without cu_seqlens_q: pass both, or neither");
    check_tokens(operation, "s_q", l.s_q);
    check_tokens(operation, "s_kv", l.s_kv);
    check_sequences(operation, l.batch);
    lengths.sequences.resize(l.batch == 0 ? 1 : static_cast<size_t>(l.batch));
    for (size_t i = 0; i < lengths.sequences.size(); ++i)
      lengths.sequences[i] = {static_cast<int64_t>(i), 0, l.s_q, 0, l.s_kv};
  }
  check_counts(operation, lengths.sequences, lengths.h_q);
  return lengths;
}

}  // namespace anymask
