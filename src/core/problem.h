// One attention call, checked and normalised: every pointer with its shape. What a backend computes from.
//
// Batch form and packed form are one: a *sequence* is a batch entry, or a stretch of a packed tensor. `sequences[i]`
// says where its rows and keys begin, in tokens, along the tensors' token stride; for the batch form `batch` is i and
// both begins are 0, for the packed form `batch` is 0.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace anymask {

struct Sequence {
  int64_t batch = 0;               // index along the tensors' batch stride (0 when packed)
  int64_t q_begin = 0, s_q = 0;    // first row, rows
  int64_t kv_begin = 0, s_kv = 0;  // first key, keys
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

// [batch, token, head, dim] over any strides with stride_dim == 1 (or dim == 1). Packed tensors have batch stride 0.
struct Tensor4 {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride_b = 0, stride_s = 0, stride_h = 0;  // elements
  bool present = false;                              // a tensor of no elements may have a null pointer
  bool defined() const { return present; }

  // First element of (sequence row/key `token`, head).
  template <class T>
  T* at(int64_t batch, int64_t token, int64_t head) const {
    return static_cast<T*>(data) + batch * stride_b + token * stride_s + head * stride_h;
  }
};

// [b | 1, heads | 1, s_q | 1, s_kv]: a dimension of size 1 has stride 0 here, and a head of q indexes with `head_of`.
// In the packed form rows and keys are counted inside the sequence.
struct Bias {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t shape[4] = {0, 0, 0, 0};
  bool present = false;
  int64_t stride_b = 0, stride_h = 0, stride_q = 0, stride_kv = 0;  // elements
  int64_t group =
      1;  // q heads per bias head: 1 when heads == h_q (or 1 with stride_h 0), h_q / h_kv when heads == h_kv
  bool defined() const { return present; }
  int64_t offset(int64_t b, int64_t h_q, int64_t row, int64_t key) const {
    return b * stride_b + (h_q / group) * stride_h + row * stride_q + key * stride_kv;
  }
};

// [b | 1 (stride 0), h_q]: ALiBi slopes; sinks are the same with b == 1.
struct PerHead {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride_b = 0, stride_h = 1;
  bool present = false;
  bool defined() const { return present; }
};

// [b, h_q, s_q], or packed [h_q, total_q] with batch stride 0. fp32 (fp64 for the reference).
struct RowStat {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride_b = 0, stride_h = 0, stride_q = 1;
  bool present = false;
  bool defined() const { return present; }
  template <class T>
  T* at(int64_t batch, int64_t head, int64_t row) const {
    return static_cast<T*>(data) + batch * stride_b + head * stride_h + row * stride_q;
  }
};

struct AttentionProblem {
  // Shapes.
  int64_t h_q = 0, h_kv = 0, d_qk = 0, d_v = 0;
  int64_t group() const { return h_q / h_kv; }  // q heads that share a kv head
  std::vector<Sequence> sequences;  // the batch entries, or the packed sequences; mask and bias index them as `b`
  bool packed = false;
  Device device;  // where all tensors are
  int64_t max_s_q = 0, max_s_kv = 0;

  // Meaning.
  double softmax_scale = 1;  // s = scale * (q . k)
  double softcap = 0;        // 0: none; else s = cap * tanh(s / cap)
  Bias bias;                 // + bias
  PerHead alibi;             // - slope * |p - kv|, p = row + s_kv - s_q
  PerHead sinks;             // one logit per q head, in the denominator only

  // Tensors.
  DType dtype = DType::f32;  // of q, k, v (out, dout and gradients alike, except that the reference may write fp64)
  Tensor4 q, k, v, out;
  RowStat lse;  // natural logarithm; undefined when the caller does not want it

  // Backward only.
  Tensor4 dout, dq, dk, dv;
  RowStat dlse;  // gradient flowing in through lse; undefined: none
  Bias dbias;    // the bias's own shape, fp32 or the bias's type
  PerHead dsinks;

  bool deterministic = false;
  int num_threads = 0;  // CPU: 0 means all cores this process may use
};

}  // namespace anymask
