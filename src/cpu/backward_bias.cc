#include "cpu/backward_bias.h"

#include <algorithm>
#include <cstring>

namespace anymask::backward {
namespace {

constexpr int64_t rows_a_piece = 64;

void* address(const Bias& bias, int64_t offset) { return static_cast<char*>(bias.data) + offset * size_of(bias.dtype); }

void store_row(const Bias& bias, int64_t at, const float* from, int64_t n) {
  if (bias.stride_kv == 1) {
    kernels().store_rows(bias.dtype, from, n, 1, n, address(bias, at), n);
  } else {
    kernels().store_rows(bias.dtype, from, 1, n, 1, address(bias, at), bias.stride_kv);
  }
}

}  // namespace

BiasGradients::BiasGradients(const AttentionProblem& problem, const Schedule& schedule)
    : problem_(problem), schedule_(schedule) {
  const Bias& dbias = problem.dbias;
  if (!dbias.defined()) return;
  shape_b_ = dbias.shape[0];
  shape_h_ = dbias.shape[1];
  shape_q_ = dbias.shape[2];
  shape_kv_ = dbias.shape[3];
  const auto sequences = static_cast<int64_t>(problem.sequences.size());
  const int64_t elements = shape_b_ * shape_h_ * shape_q_ * shape_kv_;
  if (shape_q_ == 1) {
    kind_ = BiasGradient::columns;
    sums_ = shape_h_ == problem.h_q ? problem.group() : 1;
    int64_t floats = 0;
    for (const Head& head : schedule.heads()) {
      first_sum_.push_back(floats);
      floats += sums_ * problem.sequences[static_cast<size_t>(head.sequence)].s_kv;
    }
    partial_ = memory_.get<float>(floats);
    return;
  }
  const bool shared_heads = shape_h_ < problem.h_q, shared_batch = shape_b_ < sequences;
  if (!shared_heads && !shared_batch) {
    kind_ = BiasGradient::store;
    return;
  }
  kind_ = BiasGradient::add;
  ordered_ = shared_batch || (shape_h_ == 1 && problem.h_kv > 1);
  if (dbias.dtype != DType::f32) data_ = memory_.get<float>(elements);
}

int64_t BiasGradients::row_offset(int64_t i) const {
  const Bias& dbias = problem_.dbias;
  const int64_t q = i % shape_q_, h = i / shape_q_ % shape_h_, b = i / shape_q_ / shape_h_;
  return b * dbias.stride_b + h * dbias.stride_h + q * dbias.stride_q;
}

int64_t BiasGradients::pieces_before() const {
  if (kind_ != BiasGradient::store && kind_ != BiasGradient::add) return 0;
  return (shape_b_ * shape_h_ * shape_q_ + rows_a_piece - 1) / rows_a_piece;
}

void BiasGradients::before(int64_t piece) const {
  const int64_t begin = piece * rows_a_piece, end = std::min(begin + rows_a_piece, shape_b_ * shape_h_ * shape_q_);
  if (data_ != nullptr) {
    std::memset(data_ + begin * shape_kv_, 0, static_cast<size_t>((end - begin) * shape_kv_) * sizeof(float));
    return;
  }
  const Bias& dbias = problem_.dbias;
  const auto size = static_cast<size_t>(size_of(dbias.dtype));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = row_offset(i);
    if (dbias.stride_kv == 1) {
      std::memset(address(dbias, at), 0, static_cast<size_t>(shape_kv_) * size);
    } else {
      for (int64_t j = 0; j < shape_kv_; ++j) std::memset(address(dbias, at + j * dbias.stride_kv), 0, size);
    }
  }
}

int64_t BiasGradients::pieces_after() const {
  if (kind_ == BiasGradient::columns) return shape_b_ * shape_h_;
  return data_ != nullptr ? pieces_before() : 0;
}

void BiasGradients::after(int64_t piece) const {
  const Bias& dbias = problem_.dbias;
  if (kind_ == BiasGradient::add) {
    const int64_t begin = piece * rows_a_piece, end = std::min(begin + rows_a_piece, shape_b_ * shape_h_ * shape_q_);
    for (int64_t i = begin; i < end; ++i) store_row(dbias, row_offset(i), data_ + i * shape_kv_, shape_kv_);
    return;
  }
  // Columns: the partial sums of the heads that share these biases, in the order of heads.
  const int64_t b = piece / shape_h_, h = piece % shape_h_;
  std::vector<float> total(static_cast<size_t>(shape_kv_), 0.f);
  const auto add = [&](int32_t order) {
    const Head& head = schedule_.heads()[static_cast<size_t>(order)];
    const int64_t keys = problem_.sequences[static_cast<size_t>(head.sequence)].s_kv;
    const float* from = sums_at(order, shape_h_ == problem_.h_q ? h % problem_.group() : 0);
    for (int64_t j = 0; j < keys; ++j) total[static_cast<size_t>(j)] += from[j];
  };
  // kv heads that a bias head serves: all of them, or its own.
  const int64_t kv_begin = shape_h_ == 1 ? 0 : h * problem_.h_kv / shape_h_;
  const int64_t kv_end = shape_h_ == 1 ? problem_.h_kv : kv_begin + 1;
  if (shape_b_ == static_cast<int64_t>(problem_.sequences.size())) {
    for (int64_t kv = kv_begin; kv < kv_end; ++kv) add(schedule_.order(b, kv));
  } else {
    for (int32_t order = 0; order < static_cast<int32_t>(schedule_.heads().size()); ++order) {
      const int64_t kv = schedule_.heads()[static_cast<size_t>(order)].kv_head;
      if (kv >= kv_begin && kv < kv_end) add(order);
    }
  }
  store_row(dbias, b * dbias.stride_b + h * dbias.stride_h, total.data(), shape_kv_);
}

float* BiasGradients::sums_at(int32_t head, int64_t sum) const {
  const Head& of = schedule_.heads()[static_cast<size_t>(head)];
  return partial_ + first_sum_[static_cast<size_t>(head)] +
         sum * problem_.sequences[static_cast<size_t>(of.sequence)].s_kv;
}

void BiasGradients::keep_sums(const Task& task, int64_t sum, int64_t key_begin, int64_t keys, const float* from) const {
  std::memcpy(sums_at(task.head, sum) + key_begin, from, static_cast<size_t>(keys) * sizeof(float));
}

BiasGradientTile BiasGradients::tile(int64_t sequence, int64_t h, int64_t row, int64_t key) const {
  BiasGradientTile tile;
  tile.kind = kind_;
  if (kind_ == BiasGradient::none || kind_ == BiasGradient::columns) return tile;
  const Bias& dbias = problem_.dbias;
  if (data_ != nullptr) {
    const int64_t b = shape_b_ == 1 ? 0 : sequence, head = shape_h_ == 1 ? 0 : h / dbias.group;
    tile.data = data_ + ((b * shape_h_ + head) * shape_q_ + row) * shape_kv_ + key;
    tile.dtype = DType::f32;
    tile.stride_q = shape_kv_;
    tile.stride_kv = 1;
    return tile;
  }
  tile.data = address(dbias, dbias.offset(sequence, h, row, key));
  tile.dtype = dbias.dtype;
  tile.stride_q = dbias.stride_q;
  tile.stride_kv = dbias.stride_kv;
  return tile;
}

}  // namespace anymask::backward
