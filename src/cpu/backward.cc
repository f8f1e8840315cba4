#include "cpu/backward.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>

#include "core/error.h"
#include "core/interrupt.h"
#include "cpu/backward_bias.h"
#include "cpu/backward_schedule.h"
#include "cpu/backward_tile.h"
#include "cpu/score_units.h"
#include "cpu/scratch.h"
#include "cpu/storage.h"
#include "cpu/targets.h"
#include "cpu/thread_pool.h"
#include "plan/tile_source.h"

namespace anymask {
namespace backward {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
// Below so many multiply-adds (about 60 us on one core) waking a second thread costs more than it brings.
constexpr double serial_work = 2e6;

template <class T>
T* at(const Tensor4& tensor, int64_t batch, int64_t token, int64_t head) {
  return tensor.at<T>(batch, token, head);
}

// Address of (batch, token, head), whatever the type.
void* address(const Tensor4& tensor, int64_t batch, int64_t token, int64_t head) {
  const int64_t elements = batch * tensor.stride_b + token * tensor.stride_s + head * tensor.stride_h;
  return static_cast<char*>(tensor.data) + elements * size_of(tensor.dtype);
}

void set_element(void* data, DType type, int64_t index, float x) {
  with_type(type, [&](auto t) { from_float(x, static_cast<decltype(t)*>(data)[index]); });
}
float per_head(const PerHead& values, int64_t sequence, int64_t h) {
  return element(values.data, values.dtype, sequence * values.stride_b + h * values.stride_h);
}

// Runs `piece(i)` for i < count on up to `threads` threads. None is begun after one has failed.
template <class F>
void for_each_piece(int threads, int64_t count, F&& piece) {
  if (count == 0) return;
  std::atomic<int64_t> next{0};
  run_on_threads(static_cast<int>(std::min<int64_t>(threads, count)), [&](int) {
    try {
      for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
        poll_interrupt();
        piece(i);
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      throw;
    }
  });
}

// A thread's memory, kept between calls.
struct Workspace {
  Scratch floats, words, head_dq;
  std::vector<TileRow> rows;
};
Workspace& workspace() {
  thread_local Workspace w;
  return w;
}

// Lays the tile's buffers out in the thread's memory.
void lay_out(Tile& t, Workspace& w, int64_t d_qk, int64_t d_v, int64_t sums, bool sinks) {
  t.d_qk = d_qk;
  t.d_v = d_v;
  t.ld_qk = leading_dimension(d_qk);
  t.ld_v = leading_dimension(d_v);
  constexpr int64_t panel_floats = tile_queries * max_panel;
  const int64_t floats = max_chunk * (2 * t.ld_qk + t.ld_v + d_qk + d_v + sums) +
                         tile_queries * (2 * t.ld_qk + t.ld_v + ld_p + 3) + 3 * panel_floats;
  float* next = w.floats.get<float>(floats);
  const auto take = [&](int64_t n) {
    float* p = next;
    next += n;
    return p;
  };
  t.k = take(max_chunk * t.ld_qk);
  t.dk = take(max_chunk * t.ld_qk);
  t.dv = take(max_chunk * t.ld_v);
  t.k_transposed = take(max_chunk * d_qk);
  t.v_transposed = take(max_chunk * d_v);
  t.q = take(tile_queries * t.ld_qk);
  t.score_q = take(tile_queries * t.ld_qk);
  t.dout = take(tile_queries * t.ld_v);
  t.p = take(tile_queries * ld_p);
  t.lse = take(tile_queries);
  t.delta = take(tile_queries);
  float* sink_weight = take(tile_queries);
  t.sink_weight = sinks ? sink_weight : nullptr;
  t.dp = take(panel_floats);
  t.cap_slope = take(panel_floats);
  t.addend = take(panel_floats);
  t.dbias.column_sums = sums > 0 ? take(max_chunk * sums) : nullptr;
  uint64_t* words = w.words.get<uint64_t>(max_chunk / 64 * tile_queries + 2 * max_chunk);
  t.row_bits = words;
  t.any = words + max_chunk / 64 * tile_queries;
  t.all = t.any + max_chunk;
}

// fp32 dQ of the heads in flight, for 16-bit dq.
class HeadSums {
 public:
  explicit HeadSums(size_t heads) : data_(std::make_unique<std::atomic<float*>[]>(heads)) {
    for (size_t i = 0; i < heads; ++i) data_[i].store(nullptr, std::memory_order_relaxed);
  }
  // Zeros for a head; called by its first task.
  float* open(int32_t head, int64_t floats) {
    Scratch memory;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        memory = std::move(free_.back());
        free_.pop_back();
      }
    }
    float* data = memory.get<float>(floats);
    std::memset(data, 0, static_cast<size_t>(floats) * sizeof(float));
    {
      const std::lock_guard lock(mutex_);
      used_.emplace_back(head, std::move(memory));
    }
    data_[static_cast<size_t>(head)].store(data, std::memory_order_release);
    return data;
  }
  float* find(int32_t head) const { return data_[static_cast<size_t>(head)].load(std::memory_order_acquire); }
  void close(int32_t head) {
    const std::lock_guard lock(mutex_);
    for (auto& [owner, memory] : used_) {
      if (owner != head) continue;
      free_.push_back(std::move(memory));
      std::swap(owner, used_.back().first);
      std::swap(memory, used_.back().second);
      used_.pop_back();
      return;
    }
  }

 private:
  std::unique_ptr<std::atomic<float*>[]> data_;
  std::mutex mutex_;
  std::vector<std::pair<int32_t, Scratch>> used_;
  std::vector<Scratch> free_;
};

// One call.
class Backward {
 public:
  Backward(const AttentionProblem& problem, const Mask& mask, int threads)
      : problem_(problem),
        kernels_(kernels()),
        threads_(threads),
        chunk_(choose_chunk(problem)),
        source_(TileSource::make(mask, problem.sequences, problem.h_q, problem.h_kv, backward_plan_request(problem),
                                 pool_workers(threads))),
        schedule_(problem, chunk_, threads),
        bias_(problem, schedule_),
        head_sums_(problem.dq.dtype == DType::f32 ? 0 : schedule_.heads().size()) {
    int64_t rows = 0;
    for (const Sequence& sequence : problem.sequences) {
      first_delta_.push_back(rows);
      rows += sequence.s_q * problem.h_q;
      for (int64_t row = 0; row < sequence.s_q; row += rows_a_piece) {
        row_pieces_.emplace_back(static_cast<int32_t>(first_delta_.size() - 1), row);
      }
    }
    delta_ = delta_memory_.get<float>(rows);
    if (problem.dsinks.defined()) sink_sums_.assign(static_cast<size_t>(schedule_.num_tasks() * problem.group()), 0.0);
  }

  void run() {
    // delta, and zeros where sums will grow.
    const auto row_pieces = static_cast<int64_t>(row_pieces_.size());
    for_each_piece(threads_, row_pieces + bias_.pieces_before(), [&](int64_t i) {
      if (i < row_pieces) {
        prepare_rows(row_pieces_[static_cast<size_t>(i)].first, row_pieces_[static_cast<size_t>(i)].second);
      } else {
        bias_.before(i - row_pieces);
      }
    });
    // dk, dv, dq, and dS where the bias wants it.
    run_on_threads(static_cast<int>(std::clamp<int64_t>(schedule_.num_tasks(), 1, threads_)), [&](int) {
      try {
        run_tasks();
      } catch (...) {
        schedule_.abandon();
        throw;
      }
    });
    // Sums over heads and batch entries.
    const int64_t sinks = problem_.dsinks.defined() ? problem_.h_q : 0;
    for_each_piece(threads_, sinks + bias_.pieces_after(), [&](int64_t i) {
      if (i < sinks) {
        sum_sinks(i);
      } else {
        bias_.after(i - sinks);
      }
    });
  }

 private:
  static constexpr int64_t rows_a_piece = 64;

  const Sequence& sequence(int64_t i) const { return problem_.sequences[static_cast<size_t>(i)]; }
  float* delta(int64_t s, int64_t h) { return delta_ + first_delta_[static_cast<size_t>(s)] + h * sequence(s).s_q; }

  // delta = rowsum(dout o out) - dlse, 0 for rows that keep nothing; zeros in dq where it is summed in place or nothing
  // will be.
  void prepare_rows(int64_t s, int64_t row) {
    const Sequence& seq = sequence(s);
    const int64_t rows = std::min(rows_a_piece, seq.s_q - row), token = seq.q_begin + row;
    for (int64_t h = 0; h < problem_.h_q; ++h) {
      float* to = delta(s, h) + row;
      kernels_.row_dots(problem_.dtype, address(problem_.dout, seq.batch, token, h), problem_.dout.stride_s,
                        address(problem_.out, seq.batch, token, h), problem_.out.stride_s, rows, problem_.d_v, to);
      for (int64_t i = 0; i < rows; ++i) {
        if (problem_.dlse.defined()) to[i] -= *problem_.dlse.at<const float>(seq.batch, h, token + i);
        if (*problem_.lse.at<const float>(seq.batch, h, token + i) == -infinity) to[i] = 0;
      }
      if (problem_.dq.dtype == DType::f32 || seq.s_kv == 0) {
        char* dq = static_cast<char*>(address(problem_.dq, seq.batch, token, h));
        const int64_t size = size_of(problem_.dq.dtype);
        for (int64_t i = 0; i < rows; ++i) {
          std::memset(dq + i * problem_.dq.stride_s * size, 0, static_cast<size_t>(problem_.d_qk * size));
        }
      }
    }
  }

  // dsink = sum over rows of P_sink (dlse - sum over keys of P dP), P_sink = exp(sink - lse): the tasks have summed the
  // second term. It equals rowsum(dout o out), but out has been rounded to its type, and over many rows that shows.
  void sum_sinks(int64_t h) const {
    const float sink = per_head(problem_.sinks, 0, h);
    double sum = 0;
    for (size_t s = 0; s < problem_.sequences.size(); ++s) {
      const Sequence& seq = problem_.sequences[s];
      if (problem_.dlse.defined()) {
        for (int64_t token = seq.q_begin; token < seq.q_begin + seq.s_q; ++token) {
          const float lse = *problem_.lse.at<const float>(seq.batch, h, token),
                      dlse = *problem_.dlse.at<const float>(seq.batch, h, token);
          if (lse != -infinity) sum += static_cast<double>(std::exp(sink - lse)) * static_cast<double>(dlse);
        }
      }
      const Head& head =
          schedule_.heads()[static_cast<size_t>(schedule_.order(static_cast<int64_t>(s), h / problem_.group()))];
      for (int64_t c = 0; c < head.chunks; ++c) {
        sum -= sink_sums_[static_cast<size_t>((head.first_task + c) * problem_.group() + h % problem_.group())];
      }
    }
    set_element(problem_.dsinks.data, problem_.dsinks.dtype, h * problem_.dsinks.stride_h, static_cast<float>(sum));
  }

  void run_tasks() {
    Workspace& w = workspace();
    Tile tile;
    lay_out(tile, w, problem_.d_qk, problem_.d_v, bias_.sums(), problem_.dsinks.defined());
    tile.scale = static_cast<float>(problem_.softmax_scale);
    const ScoreUnits units(problem_);
    tile.score_factor = units.factor;
    tile.natural = units.natural;
    tile.cap = units.cap;
    const auto group = static_cast<size_t>(problem_.group());
    if (w.rows.size() < group) w.rows.resize(group);
    for (Task task; schedule_.claim(task);) run_task(task, tile, w);
    if (w.head_dq.bytes() > size_t{4} << 20) w.head_dq.release();  // a long sequence's: not to be kept for ever
  }

  // The runs of one q head of the group, walked downwards.
  struct Walk {
    const TileRow* row = nullptr;
    int64_t run = -1;
    // The highest block at or below `block` that is listed, or -1.
    int64_t next(int64_t block) {
      const std::span<const Run> runs = row->runs();
      while (run >= 0 && runs[static_cast<size_t>(run)].n_begin > block) --run;
      return run < 0 ? -1 : std::min<int64_t>(block, runs[static_cast<size_t>(run)].n_end - 1);
    }
    const uint64_t* bits(int64_t block) const {
      const Run& of = row->runs()[static_cast<size_t>(run)];
      return of.kind == RunKind::full ? nullptr : row->bits(of, static_cast<int32_t>(block));
    }
  };

  void run_task(const Task& task, Tile& tile, Workspace& w) {
    const Head& head = schedule_.heads()[static_cast<size_t>(task.head)];
    const Sequence& seq = sequence(head.sequence);
    const int64_t group = problem_.group(), first_h = head.kv_head * group;
    const int64_t key_begin = task.chunk * chunk_;
    tile.keys = std::min(chunk_, seq.s_kv - key_begin);

    std::vector<Walk>& walks = walks_of_thread();
    walks.resize(static_cast<size_t>(group));
    int64_t highest = -1;
    int32_t plane_before = -1;
    for (int64_t g = 0; g < group; ++g) {
      const int32_t plane = source_.plane(head.sequence, first_h + g);
      Walk& walk = walks[static_cast<size_t>(g)];
      if (g > 0 && plane == plane_before) {
        walk.row = walks[static_cast<size_t>(g - 1)].row;
      } else {
        source_.row(plane, static_cast<int32_t>(task.chunk), w.rows[static_cast<size_t>(g)]);
        walk.row = &w.rows[static_cast<size_t>(g)];
      }
      plane_before = plane;
      walk.run = static_cast<int64_t>(walk.row->runs().size()) - 1;
      highest = std::max(highest, walk.next(INT32_MAX));
    }

    float* sums = open_dq(task, head, seq, w);
    begin_chunk(tile, seq, head, key_begin, highest >= 0);
    int32_t first_unfinished = 0;
    for (int64_t block = highest; block >= 0;) {
      poll_interrupt();  // a chunk of a long sequence is seconds of work
      schedule_.enter(task, block);
      if (bias_.ordered()) {
        schedule_.wait_for_heads(task, block, [&](const Head& earlier) { return bias_.shares(earlier, head); });
      }
      int64_t below = -1;
      for (int64_t g = 0; g < group; ++g) {
        Walk& walk = walks[static_cast<size_t>(g)];
        if (walk.next(block) == block) {
          tile.bits = walk.bits(block);
          load_block(tile, seq, head.sequence, first_h + g, block, key_begin);
          const int64_t next_block = group > 1 ? (g + 1 < group ? block : block - 1) : walk.next(block - 1);
          const int64_t next_h = first_h + (g + 1 < group ? g + 1 : 0);
          announce_next(tile, seq, next_h, next_block);
          if (bias_.kind() != BiasGradient::none) aim_bias_gradient(tile, head, first_h, g, block, key_begin);
          tile.sink_sum = 0;
          kernels_.tile_keys(tile);
          if (!sink_sums_.empty())
            sink_sums_[static_cast<size_t>((head.first_task + task.chunk) * group + g)] += tile.sink_sum;
          aim_dq(tile, seq, first_h, g, block, sums);
          schedule_.wait_for_chunks(task, block, first_unfinished);
          kernels_.tile_dq(tile);
        }
        below = std::max(below, walk.next(block - 1));
      }
      block = below;
    }
    end_chunk(tile, task, seq, head, key_begin);
    if (schedule_.leave(task) && sums != nullptr) close_dq(task, head, seq, sums);
  }

  static std::vector<Walk>& walks_of_thread() {
    thread_local std::vector<Walk> walks;
    return walks;
  }

  void begin_chunk(Tile& tile, const Sequence& seq, const Head& head, int64_t key_begin, bool any) {
    const int64_t padded = (tile.keys + kernels_.panel - 1) / kernels_.panel * kernels_.panel;
    std::memset(tile.dk, 0, static_cast<size_t>(padded * tile.ld_qk) * sizeof(float));
    std::memset(tile.dv, 0, static_cast<size_t>(padded * tile.ld_v) * sizeof(float));
    if (bias_.sums() > 0)
      std::memset(column_sums(tile, 0), 0, static_cast<size_t>(bias_.sums() * max_chunk) * sizeof(float));
    if (!any) return;
    const int64_t token = seq.kv_begin + key_begin;
    const void* k = address(problem_.k, seq.batch, token, head.kv_head);
    const void* v = address(problem_.v, seq.batch, token, head.kv_head);
    tile.k_finite = kernels_.load_rows(problem_.dtype, k, problem_.k.stride_s, tile.keys, problem_.d_qk, tile.keys,
                                       nullptr, tile.k, tile.ld_qk);
    kernels_.pack_transposed(DType::f32, tile.k, tile.ld_qk, tile.keys, problem_.d_qk, tile.k_transposed);
    kernels_.pack_transposed(problem_.dtype, v, problem_.v.stride_s, tile.keys, problem_.d_v, tile.v_transposed);
  }

  void end_chunk(Tile& tile, const Task& task, const Sequence& seq, const Head& head, int64_t key_begin) {
    const int64_t token = seq.kv_begin + key_begin;
    kernels_.store_rows(problem_.dk.dtype, tile.dk, tile.ld_qk, tile.keys, problem_.d_qk,
                        address(problem_.dk, seq.batch, token, head.kv_head), problem_.dk.stride_s);
    kernels_.store_rows(problem_.dv.dtype, tile.dv, tile.ld_v, tile.keys, problem_.d_v,
                        address(problem_.dv, seq.batch, token, head.kv_head), problem_.dv.stride_s);
    for (int64_t i = 0; i < bias_.sums(); ++i) bias_.keep_sums(task, i, key_begin, tile.keys, column_sums(tile, i));
  }

  // Row i of the task's column sums; they follow the addend (lay_out).
  static float* column_sums(const Tile& tile, int64_t i) {
    return tile.addend + tile_queries * max_panel + i * max_chunk;
  }

  void load_block(Tile& tile, const Sequence& seq, int64_t s, int64_t h, int64_t block, int64_t key_begin) {
    const int64_t row = block * tile_queries, token = seq.q_begin + row;
    tile.rows = std::min(tile_queries, seq.s_q - row);
    const float* row_delta = delta(s, h) + row;
    const float sink = tile.sink_weight != nullptr ? per_head(problem_.sinks, 0, h) : 0.f;
    for (int64_t i = 0; i < tile.rows; ++i) {
      const float lse = *problem_.lse.at<const float>(seq.batch, h, token + i);
      tile.lse[i] = lse == -infinity ? infinity : lse;
      tile.delta[i] = row_delta[i];
      if (tile.sink_weight != nullptr) tile.sink_weight[i] = std::exp(sink - tile.lse[i]);
    }
    const int64_t padded = std::min(tile_queries, (tile.rows + kernels_.rows - 1) / kernels_.rows * kernels_.rows);
    const bool q_finite =
        kernels_.load_rows(problem_.dtype, address(problem_.q, seq.batch, token, h), problem_.q.stride_s, tile.rows,
                           problem_.d_qk, padded, tile.lse, tile.q, tile.ld_qk);
    const bool dout_finite =
        kernels_.load_rows(problem_.dtype, address(problem_.dout, seq.batch, token, h), problem_.dout.stride_s,
                           tile.rows, problem_.d_v, padded, tile.lse, tile.dout, tile.ld_v);
    tile.rows_finite = q_finite && dout_finite;
    if (problem_.bias.defined()) {
      const Bias& bias = problem_.bias;
      tile.bias.data = static_cast<const char*>(bias.data) + bias.offset(s, h, row, key_begin) * size_of(bias.dtype);
      tile.bias.dtype = bias.dtype;
      tile.bias.stride_q = bias.stride_q;
      tile.bias.stride_kv = bias.stride_kv;
    }
    if (problem_.alibi.defined()) {
      tile.alibi_slope = static_cast<float>(per_head(problem_.alibi, s, h) * ScoreUnits(problem_).log_unit);
      tile.alibi_distance = row + seq.s_kv - seq.s_q - key_begin;
    }
  }

  // The rows most likely to come next: a guess that costs little when it is wrong.
  void announce_next(Tile& tile, const Sequence& seq, int64_t h, int64_t block) const {
    tile.next_rows = 0;
    if (block < 0) return;
    const int64_t row = block * tile_queries, size = size_of(problem_.dtype);
    tile.next_rows = std::min(tile_queries, seq.s_q - row);
    tile.next_q = address(problem_.q, seq.batch, seq.q_begin + row, h);
    tile.next_dout = address(problem_.dout, seq.batch, seq.q_begin + row, h);
    tile.next_q_stride = problem_.q.stride_s * size;
    tile.next_dout_stride = problem_.dout.stride_s * size;
    tile.next_q_bytes = problem_.d_qk * size;
    tile.next_dout_bytes = problem_.d_v * size;
  }

  void aim_bias_gradient(Tile& tile, const Head& head, int64_t first_h, int64_t g, int64_t block,
                         int64_t key_begin) const {
    tile.dbias = bias_.tile(head.sequence, first_h + g, block * tile_queries, key_begin);
    if (bias_.kind() == BiasGradient::columns) tile.dbias.column_sums = column_sums(tile, bias_.sum_of(g));
  }

  void aim_dq(Tile& tile, const Sequence& seq, int64_t first_h, int64_t g, int64_t block, float* sums) const {
    const int64_t row = block * tile_queries;
    if (sums != nullptr) {
      tile.dq = sums + (g * seq.s_q + row) * problem_.d_qk;
      tile.dq_stride = problem_.d_qk;
    } else {
      tile.dq = at<float>(problem_.dq, seq.batch, seq.q_begin + row, first_h + g);
      tile.dq_stride = problem_.dq.stride_s;
    }
  }

  // fp32 sums for the dQ of a head [group, s_q, d_qk], when dq is not fp32: the thread's own where the head is one
  // task.
  float* open_dq(const Task& task, const Head& head, const Sequence& seq, Workspace& w) {
    if (problem_.dq.dtype == DType::f32) return nullptr;
    const int64_t floats = problem_.group() * seq.s_q * problem_.d_qk;
    if (head.chunks == 1) {
      float* sums = w.head_dq.get<float>(floats + 1);
      std::memset(sums, 0, static_cast<size_t>(floats) * sizeof(float));
      return sums;
    }
    if (task.chunk == 0) return head_sums_.open(task.head, floats + 1);
    for (int64_t step = 0;; ++step) {
      if (float* sums = head_sums_.find(task.head)) return sums;
      schedule_.pause(step);
    }
  }

  void close_dq(const Task& task, const Head& head, const Sequence& seq, const float* sums) {
    for (int64_t g = 0; g < problem_.group(); ++g) {
      kernels_.store_rows(problem_.dq.dtype, sums + g * seq.s_q * problem_.d_qk, problem_.d_qk, seq.s_q, problem_.d_qk,
                          address(problem_.dq, seq.batch, seq.q_begin, head.kv_head * problem_.group() + g),
                          problem_.dq.stride_s);
    }
    if (head.chunks > 1) head_sums_.close(task.head);
  }

  const AttentionProblem& problem_;
  const Kernels& kernels_;
  int threads_;
  int64_t chunk_;
  TileSource source_;
  Schedule schedule_;
  BiasGradients bias_;
  HeadSums head_sums_;
  std::vector<int64_t> first_delta_;                     // by sequence, into delta_
  std::vector<std::pair<int32_t, int64_t>> row_pieces_;  // sequence, first row
  float* delta_ = nullptr;                               // by sequence: [h_q, s_q]
  Scratch delta_memory_;
  std::vector<double> sink_sums_;  // [tasks, group], for dsinks
};

int choose_threads(const AttentionProblem& problem) {
  double pairs = 0;
  for (const Sequence& sequence : problem.sequences)
    pairs += static_cast<double>(sequence.s_q) * static_cast<double>(sequence.s_kv);
  const double work = pairs * static_cast<double>(problem.h_q * (3 * problem.d_qk + 2 * problem.d_v));
  return work < serial_work ? 1 : resolve_threads(problem.num_threads);
}

}  // namespace
}  // namespace backward

PlanRequest backward_plan_request(const AttentionProblem& problem) {
  PlanRequest request;
  request.tile_m = static_cast<int32_t>(backward::choose_chunk(problem));
  request.tile_n = static_cast<int32_t>(backward::tile_queries);
  request.transposed = true;
  return request;
}

void cpu_backward(const AttentionProblem& problem, const Mask& mask) {
  backward::Backward(problem, mask, backward::choose_threads(problem)).run();
}

std::vector<Fact> backward_facts(const AttentionProblem& problem, const Mask& mask) {
  const backward::Kernels& kernels = backward::kernels();
  const PlanRequest request = backward_plan_request(problem);
  const TileSource source =
      TileSource::make(mask, problem.sequences, problem.h_q, problem.h_kv, request, pool_workers(problem.num_threads));
  int64_t tasks = 0;
  for (const Sequence& sequence : problem.sequences) {
    tasks += (sequence.s_kv + request.tile_m - 1) / request.tile_m * problem.h_kv;
  }
  return {
      {"kernel", "cpu_backward: one pass, key-stationary, five products"},
      {"target", cpu_target()},
      {"tile", cat(request.tile_m, " keys x ", request.tile_n, " rows")},
      {"register tile", cat(kernels.rows, " x ", kernels.panel)},
      {"tiles from", source.planned() ? "a plan" : "two integers a row (no plan)"},
      {"plan bytes", cat(source.planned() ? source.plan()->stats.bytes : 0)},
      {"tasks", cat(tasks)},
      {"threads", cat(backward::choose_threads(problem))},
      {"dq",
       problem.dtype == DType::f32 ? "summed in place, in key order" : "summed in fp32, in key order, then narrowed"},
  };
}

}  // namespace anymask
