// One attention call with the memory of its tensors: what `run` reads from files and what `verify` and `bench` make up.
#pragma once

#include <anymask/anymask.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/io/tensor.h"
#include "cli/library.h"

namespace anymask::cli {

// Shapes as in anymask.h: [b, s, h, d], or packed [total, h, d] with offsets. Tensors that are not `present` are not
// given.
struct Call {
  Tensor q, k, v;
  Tensor bias, alibi, sinks;
  Tensor cu_seqlens_q, cu_seqlens_kv;    // cu_seqlens_kv not present: as cu_seqlens_q
  Tensor dout, dlse;                     // dout present: the backward is wanted too
  std::vector<Tensor> mask_arrays;       // what the mask borrows
  std::shared_ptr<anymask_mask_s> mask;  // null: full
  std::optional<double> scale;
  double softcap = 0;
  bool deterministic = false;
  int64_t threads = 0;
  std::string backend = "auto";

  bool packed() const { return cu_seqlens_q.present; }
  bool backward() const { return dout.present; }
  int64_t h_q() const { return q.shape[q.shape.size() - 2]; }
  int64_t h_kv() const { return k.shape[k.shape.size() - 2]; }
  int64_t d_qk() const { return q.shape.back(); }
  int64_t d_v() const { return v.shape.back(); }
};

// What the call writes; absent tensors are not asked for.
struct Results {
  Tensor out, lse, dq, dk, dv, dbias, dsinks;
  std::vector<const Tensor*> all() const;  // those present
  std::vector<Tensor*> all();
};

// One stretch of rows and keys: a batch entry or a packed sequence. Offsets are in tokens.
struct Stretch {
  int64_t q_begin = 0, s_q = 0, kv_begin = 0, s_kv = 0;
};
// Valid for a call the library accepts.
std::vector<Stretch> stretches(const Call& call);

// Outputs of that call, every byte 0xff: NaN until written. `wide`: in double, as the reference can write.
// The shapes of q, k, v must have passed a call of the library or check_ranks().
Results allocate_results(const Call& call, bool backward, bool wide = false);

// Throws UsageError unless q, k, v have rank 4 (3 when packed) with equal h and d where they must be, so that outputs
// can be sized.
void check_ranks(const Call& call);

// The library's view of a call's lengths, valid as long as the call.
struct CallLengths {
  explicit CallLengths(const Call& call);
  CallLengths(const CallLengths&) = delete;
  CallLengths& operator=(const CallLengths&) = delete;
  DLTensor cu_q{}, cu_kv{};
  anymask_lengths value{};
};

// A call that can be repeated: for backend "cuda" on copies of all tensors in device memory. Errors are UsageErrors
// with the library's message. Call and results must outlive it.
class Runner {
 public:
  Runner(const Call& call, Results& results);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void forward();   // on a device: only enqueued
  void backward();  // out and lse are the forward's
  void wait();      // until what was enqueued is done
  void finish();    // and stands in `results`

 private:
  class OnDevice;
  const Call& call_;
  Results& results_;
  std::unique_ptr<OnDevice> device_;  // null: the host's memory is used as it is
};

// Once, to the end.
void forward(const Call& call, Results& results);
void backward(const Call& call, Results& results);  // results.out and lse are the forward's

// {"kernel": ..., "tiles": ...}: what would run, as the library says it in JSON.
std::string explain_json(const Call& call, bool backward);

// Pairs kept and pairs in all, over sequences and heads.
struct PairCount {
  int64_t kept = 0, pairs = 0;
  double share() const { return pairs == 0 ? 0.0 : static_cast<double>(kept) / static_cast<double>(pairs); }
};
PairCount count_pairs(const Call& call);

// Multiplications and additions of the matrix products over kept pairs: 2 (d_qk + d_v) a pair forward, 2 (3 d_qk + 2
// d_v) backward.
double forward_flops(const Call& call, int64_t kept);
double backward_flops(const Call& call, int64_t kept);

}  // namespace anymask::cli
