// A complete, valid attention call through the C API, to be spoiled one argument at a time.
#pragma once

#include <anymask/anymask.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace anymask_test {

inline constexpr DLDataType kF32 = {kDLFloat, 32, 1}, kF16 = {kDLFloat, 16, 1}, kBF16 = {kDLBfloat, 16, 1},
                            kF64 = {kDLFloat, 64, 1};
inline constexpr DLDataType kI32 = {kDLInt, 32, 1}, kI64 = {kDLInt, 64, 1}, kU8 = {kDLUInt, 8, 1},
                            kBool = {ANYMASK_DL_BOOL, 8, 1};

// Memory, and a view of it whose every field can be changed. There is always more memory than the view shows.
struct Buffer {
  std::vector<int64_t> shape, strides;  // no strides: contiguous
  std::vector<double> memory;           // doubles: aligned for every type
  DLTensor dl = {};
  bool null = false;  // passed as NULL

  void make(std::vector<int64_t> dims, DLDataType dtype = kF32) {
    shape = std::move(dims);
    int64_t n = 64;
    int64_t product = 1;
    for (const int64_t d : shape) product *= d;
    n += product;
    memory.assign(static_cast<size_t>(n), 0.0);
    dl.dtype = dtype;
    dl.device = {kDLCPU, 0};
    dl.data = memory.data();
  }
  float* f32() { return reinterpret_cast<float*>(memory.data()); }
  const DLTensor* get() {
    if (null) return nullptr;
    dl.ndim = static_cast<int>(shape.size());
    dl.shape = shape.data();
    dl.strides = strides.empty() ? nullptr : strides.data();
    return &dl;
  }
  int64_t numel() const {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
  void randomize(std::mt19937_64& rng) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < numel(); ++i) f32()[i] = normal(rng);
  }
  void poison() { std::memset(memory.data(), 0xab, memory.size() * sizeof(double)); }
  bool untouched() const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(memory.data());
    for (size_t i = 0; i < memory.size() * sizeof(double); ++i)
      if (bytes[i] != 0xab) return false;
    return true;
  }
};

struct World {
  static constexpr int64_t b = 2, s_q = 4, s_kv = 6, h_q = 8, h_kv = 4, d_qk = 16, d_v = 24;
  static constexpr int64_t total_q = 5, total_kv = 7;  // packed: 2 sequences of 2 and 3 rows, 3 and 4 keys

  bool packed;
  Buffer q, k, v, out, lse, dout, dq, dk, dv;
  Buffer bias, alibi, sinks, cu_q, cu_kv, dlse, dbias, dsinks;
  double scale = 0.25;
  anymask_options options = {};

  explicit World(bool is_packed = false) : packed(is_packed) {
    std::mt19937_64 rng(7);
    const auto four = [&](int64_t tokens, int64_t heads, int64_t dim) {
      return packed ? std::vector<int64_t>{tokens, heads, dim} : std::vector<int64_t>{b, tokens, heads, dim};
    };
    const int64_t rows = packed ? total_q : s_q, keys = packed ? total_kv : s_kv;
    const auto stat = packed ? std::vector<int64_t>{h_q, rows} : std::vector<int64_t>{b, h_q, rows};
    const std::vector<int64_t> bias_shape =
        packed ? std::vector<int64_t>{2, h_kv, 3, 4} : std::vector<int64_t>{b, h_kv, s_q, s_kv};
    for (Buffer* x : {&q, &dq}) x->make(four(rows, h_q, d_qk));
    for (Buffer* x : {&k, &dk}) x->make(four(keys, h_kv, d_qk));
    for (Buffer* x : {&v, &dv}) x->make(four(keys, h_kv, d_v));
    for (Buffer* x : {&out, &dout}) x->make(four(rows, h_q, d_v));
    for (Buffer* x : {&lse, &dlse}) x->make(stat);
    for (Buffer* x : {&bias, &dbias}) x->make(bias_shape);
    for (Buffer* x : {&sinks, &dsinks}) x->make({h_q});
    alibi.make({2, h_q});
    cu_q.make({3}, kI32);
    cu_kv.make({3}, kI64);
    set_offsets({0, 2, 5}, {0, 3, 7});
    for (Buffer* x : {&q, &k, &v, &dout, &dlse, &bias, &sinks, &alibi}) x->randomize(rng);
    cu_q.null = cu_kv.null = !packed;
    options.struct_size = sizeof(options);
  }

  // What a float of poisoned memory reads as.
  static float poisoned() {
    float x = 0;
    std::memset(&x, 0xab, sizeof(x));
    return x;
  }

  void set_offsets(std::vector<int32_t> rows, std::vector<int64_t> keys) {
    std::memcpy(cu_q.memory.data(), rows.data(), rows.size() * sizeof(int32_t));
    std::memcpy(cu_kv.memory.data(), keys.data(), keys.size() * sizeof(int64_t));
    cu_q.shape = {static_cast<int64_t>(rows.size())};
    cu_kv.shape = {static_cast<int64_t>(keys.size())};
  }

  const anymask_options* read_options() {
    options.softmax_scale = &scale;
    options.bias = bias.get();
    options.alibi_slopes = alibi.get();
    options.sinks = sinks.get();
    options.cu_seqlens_q = cu_q.get();
    options.cu_seqlens_kv = cu_kv.get();
    options.dlse = dlse.get();
    options.dbias = dbias.get();
    options.dsinks = dsinks.get();
    return &options;
  }
  anymask_status forward() { return anymask_forward(q.get(), k.get(), v.get(), out.get(), lse.get(), read_options()); }
  anymask_status backward() {
    return anymask_backward(dout.get(), q.get(), k.get(), v.get(), out.get(), lse.get(), dq.get(), dk.get(), dv.get(),
                            read_options());
  }
};

}  // namespace anymask_test
