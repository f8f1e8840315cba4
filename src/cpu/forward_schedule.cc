#include "cpu/forward_schedule.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "cpu/thread_pool.h"

namespace anymask {
namespace {

constexpr int32_t tiles_a_pack_task = 16;
// Below this many multiply-adds (about 60 us of one core) waking a worker costs more than it brings.
constexpr double serial_work = 1.5e6;
// What a thread keeps of the packing buffers from call to call.
constexpr size_t kept_bytes = size_t{32} << 20;
// Spins before a waiting thread lets others run: its work may belong to a thread that lost its core.
constexpr int spins_before_yield = 2000;

bool same_plane(const TileSource& source, int64_t sequence, int64_t head, int64_t heads) {
  const int32_t plane = source.plane(sequence, head);
  for (int64_t h = head + 1; h < head + heads; ++h) {
    if (source.plane(sequence, h) != plane) return false;
  }
  return true;
}

}  // namespace

// Blocks by falling cost, so that what is claimed last is short.
const std::vector<int32_t>& ForwardSchedule::heavy_first(const TileSource& source, int32_t plane, int64_t m_blocks) {
  if (plane == order_plane_ && static_cast<int64_t>(order_.size()) == m_blocks) return order_;
  order_plane_ = plane;
  order_.resize(static_cast<size_t>(m_blocks));
  std::iota(order_.begin(), order_.end(), 0);
  if (m_blocks > 2) {
    cost_.resize(static_cast<size_t>(m_blocks));
    for (int32_t m = 0; m < m_blocks; ++m) cost_[static_cast<size_t>(m)] = source.cost(plane, m);
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
      return cost_[static_cast<size_t>(a)] > cost_[static_cast<size_t>(b)];
    });
  }
  return order_;
}

void ForwardSchedule::add_unit(const AttentionProblem& problem, const TileSource& source, int64_t sequence,
                               int64_t kv_head) {
  const Sequence& lengths = problem.sequences[static_cast<size_t>(sequence)];
  if (lengths.s_q == 0) return;
  const int64_t group = problem.group(), head = kv_head * group;
  Unit unit;
  unit.sequence = sequence;
  unit.kv_head = kv_head;
  unit.heads_folded = ForwardConfig::folded_heads(group, lengths.s_q, same_plane(source, sequence, head, group));
  unit.m_blocks = (lengths.s_q + config_.tile_m - 1) / config_.tile_m;
  const int64_t folds = (group + unit.heads_folded - 1) / unit.heads_folded;
  unit.first_block = config_.blocks;
  config_.blocks += folds * unit.m_blocks;
  if (packs_shared(folds * unit.m_blocks) && lengths.s_kv > 0) {
    int32_t begin = INT32_MAX, end = 0;
    for (int64_t h = head; h < head + group; ++h) {
      const auto [first, last] = source.touched(source.plane(sequence, h));
      if (first >= last) continue;
      begin = std::min(begin, first);
      end = std::max(end, last);
    }
    if (begin < end) {
      unit.first_tile = begin;
      unit.num_tiles = end - begin;
      unit.ring_position = static_cast<int32_t>(packed_units_++);
      unit.pack_tasks = (unit.num_tiles + tiles_a_pack_task - 1) / tiles_a_pack_task;
      max_packed_tiles_ = std::max<int64_t>(max_packed_tiles_, unit.num_tiles);
    }
  }
  units_.push_back(unit);
}

void ForwardSchedule::build(const AttentionProblem& problem, const TileSource& source, ForwardConfig& config) {
  units_.clear();
  tasks_.clear();
  order_plane_ = -1;
  packed_units_ = max_packed_tiles_ = 0;
  config.blocks = 0;
  config_ = config;
  for (size_t i = 0; i < problem.sequences.size(); ++i) {
    for (int64_t kv_head = 0; kv_head < problem.h_kv; ++kv_head)
      add_unit(problem, source, static_cast<int64_t>(i), kv_head);
  }
  config.choose_splits(config_.blocks);
  config_ = config;
  for (size_t u = 0; u < units_.size(); ++u) {
    Unit& unit = units_[u];
    for (int32_t i = 0; i < unit.pack_tasks; ++i) tasks_.push_back({static_cast<int32_t>(u), -1, i, 0});
    const int64_t group = problem.group(), head = unit.kv_head * group;
    const int64_t tiles = (problem.sequences[static_cast<size_t>(unit.sequence)].s_kv + tile_keys - 1) / tile_keys;
    const int64_t pieces = std::clamp<int64_t>(tiles / config_.min_split_tiles, 1, config_.max_splits);
    const size_t before = tasks_.size();
    if (unit.heads_folded == 1 && unit.m_blocks > 2) {
      // Heads of a group that share a plane interleave, the heaviest blocks of all first.
      for (int64_t i = 0; i < unit.m_blocks; ++i) {
        for (int64_t h = 0; h < group; ++h) {
          const int32_t m =
              heavy_first(source, source.plane(unit.sequence, head + h), unit.m_blocks)[static_cast<size_t>(i)];
          for (int32_t p = 0; p < pieces; ++p) {
            tasks_.push_back({static_cast<int32_t>(u), static_cast<int32_t>(h * unit.m_blocks + m), m, p});
          }
        }
      }
    } else {
      const int64_t folds = (group + unit.heads_folded - 1) / unit.heads_folded;
      for (int64_t block = 0; block < folds * unit.m_blocks; ++block) {
        for (int32_t p = 0; p < pieces; ++p) {
          tasks_.push_back(
              {static_cast<int32_t>(u), static_cast<int32_t>(block), static_cast<int32_t>(block % unit.m_blocks), p});
        }
      }
    }
    unit.block_tasks = static_cast<int32_t>(tasks_.size() - before);
  }
}

bool ForwardSchedule::wait(const std::atomic<int32_t>& counter, int32_t target) const {
  for (int spins = 0; counter.load(std::memory_order_acquire) < target; ++spins) {
    if (failed_.load(std::memory_order_relaxed)) return false;
    if (spins < spins_before_yield) {
      spin_pause();
    } else {
      std::this_thread::yield();
    }
  }
  return true;
}

void ForwardSchedule::pack(const Task& task) {
  const Unit& unit = units_[static_cast<size_t>(task.unit)];
  if (unit.previous >= 0 && !wait(progress_[static_cast<size_t>(unit.previous)].finished,
                                  units_[static_cast<size_t>(unit.previous)].block_tasks)) {
    return;
  }
  const Sequence& sequence = problem_->sequences[static_cast<size_t>(unit.sequence)];
  const int64_t base = unit.ring_position % ring_ * ring_tiles_;
  const int32_t begin = task.index * tiles_a_pack_task, end = std::min(begin + tiles_a_pack_task, unit.num_tiles);
  for (int32_t n = begin; n < end; ++n) {
    kernels_->pack_tile(*problem_, sequence, unit.kv_head, unit.first_tile + n, config_.bf16_dot,
                        k_ring_ + (base + n) * elements_.k * element_bytes_,
                        v_ring_ + (base + n) * elements_.v * element_bytes_);
  }
  progress_[static_cast<size_t>(task.unit)].packed.fetch_add(1, std::memory_order_acq_rel);
}

PartialRows ForwardSchedule::partial(int64_t block, int64_t piece) const {
  const int64_t rows = max_block_rows;
  float* at = partials_data_ + (block * config_.max_splits + piece) * rows * (problem_->d_v + 2);
  return {at, at + rows * problem_->d_v, at + rows * (problem_->d_v + 1)};
}

void ForwardSchedule::compute(const Task& task, ForwardScratch& scratch) {
  const Unit& unit = units_[static_cast<size_t>(task.unit)];
  Progress& progress = progress_[static_cast<size_t>(task.unit)];
  if (!wait(progress.packed, unit.pack_tasks)) return;
  const Sequence& sequence = problem_->sequences[static_cast<size_t>(unit.sequence)];

  BlockTask work;
  work.problem = problem_;
  work.bf16_dot = config_.bf16_dot;
  work.block.sequence = unit.sequence;
  work.block.kv_head = unit.kv_head;
  const int64_t group = problem_->group(), fold = task.block / unit.m_blocks;
  work.block.head = unit.kv_head * group + fold * unit.heads_folded;
  work.block.heads = std::min(unit.heads_folded, group - fold * unit.heads_folded);
  work.block.token = int64_t{task.index} * config_.tile_m;
  work.block.tokens = std::min<int64_t>(config_.tile_m, sequence.s_q - work.block.token);

  scratch.tiles.clear();
  if (sequence.s_kv > 0) {
    source_->row(source_->plane(unit.sequence, work.block.head), task.index, scratch.row);
    for (const Run& run : scratch.row.runs()) {
      for (int32_t n = run.n_begin; n < run.n_end; ++n) {
        scratch.tiles.push_back({n, run.kind == RunKind::full ? nullptr : scratch.row.bits(run, n)});
      }
    }
  }
  if (unit.pack_tasks > 0) {
    const int64_t base = unit.ring_position % ring_ * ring_tiles_;
    work.packed = {k_ring_ + base * elements_.k * element_bytes_, v_ring_ + base * elements_.v * element_bytes_,
                   unit.first_tile};
  }

  // How many pieces depends on the row's own tiles; tasks for pieces it does not have find nothing to do.
  const auto tiles = static_cast<int64_t>(scratch.tiles.size());
  const int64_t pieces = std::clamp<int64_t>(tiles / config_.min_split_tiles, 1, config_.max_splits);
  if (task.piece < pieces) {
    const int64_t begin = tiles * task.piece / pieces, end = tiles * (task.piece + 1) / pieces;
    work.tiles = scratch.tiles.data() + begin;
    work.num_tiles = end - begin;
    const int64_t block = unit.first_block + task.block;
    if (pieces > 1) work.partial = partial(block, task.piece);
    kernels_->compute_block(work, scratch);
    if (pieces > 1 && pieces_done_[static_cast<size_t>(block)].fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) {
      scratch.pieces.clear();
      for (int64_t p = 0; p < pieces; ++p) scratch.pieces.push_back(partial(block, p));
      kernels_->merge(work, scratch.pieces.data(), pieces);
    }
  }
  progress.finished.fetch_add(1, std::memory_order_acq_rel);
}

void ForwardSchedule::run(const AttentionProblem& problem, const TileSource& source, const ForwardConfig& config) {
  problem_ = &problem;
  source_ = &source;
  config_ = config;
  kernels_ = &forward_kernels();
  elements_ = kernels_->tile_elements(problem.d_qk, problem.d_v);
  element_bytes_ = config.bf16_dot ? 2 : 4;

  double work = 0;
  for (const Sequence& s : problem.sequences) {
    work += static_cast<double>(s.s_q) * static_cast<double>(s.s_kv) *
            static_cast<double>(problem.h_q * (problem.d_qk + problem.d_v));
  }
  int64_t threads = work < serial_work ? 1 : std::min<int64_t>(resolve_threads(problem.num_threads), num_tasks());
  threads = std::max<int64_t>(threads, 1);

  // One thread never packs ahead. Several need the next unit packed while the last blocks of this one run, and enough
  // units in flight to have a block each.
  ring_tiles_ = max_packed_tiles_;
  ring_ = std::min<int64_t>(packed_units_, 1);
  if (packed_units_ > 1 && threads > 1) {
    const int64_t blocks =
        std::max<int64_t>(1, config.blocks / std::max<int64_t>(1, static_cast<int64_t>(units_.size())));
    const int64_t bytes = std::max<int64_t>(1, ring_tiles_ * (elements_.k + elements_.v) * element_bytes_);
    const int64_t fit = threads * (int64_t{40} << 20) / bytes;
    ring_ = std::min(packed_units_, std::max<int64_t>(2, std::min(fit, 1 + (2 * threads + blocks - 1) / blocks)));
  }
  k_ring_ = packed_k_.get<char>(ring_ * ring_tiles_ * elements_.k * element_bytes_);
  v_ring_ = packed_v_.get<char>(ring_ * ring_tiles_ * elements_.v * element_bytes_);
  if (static_cast<int64_t>(units_.size()) > progress_size_) {
    progress_ = std::make_unique<Progress[]>(units_.size());
    progress_size_ = static_cast<int64_t>(units_.size());
  }
  // The unit that had a ring position's buffer before is found by walking packed units `ring_` apart.
  holders_.assign(static_cast<size_t>(std::max<int64_t>(ring_, 1)), -1);
  for (size_t u = 0; u < units_.size(); ++u) {
    progress_[u].packed.store(0, std::memory_order_relaxed);
    progress_[u].finished.store(0, std::memory_order_relaxed);
    if (units_[u].ring_position < 0) continue;
    int32_t& holder = holders_[static_cast<size_t>(units_[u].ring_position % ring_)];
    units_[u].previous = holder;
    holder = static_cast<int32_t>(u);
  }
  if (config.max_splits > 1) {
    if (config.blocks > pieces_size_) {
      pieces_done_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(config.blocks));
      pieces_size_ = config.blocks;
    }
    for (int64_t b = 0; b < config.blocks; ++b)
      pieces_done_[static_cast<size_t>(b)].store(0, std::memory_order_relaxed);
    partials_data_ = partials_.get<float>(config.blocks * config.max_splits * max_block_rows * (problem.d_v + 2));
  }

  next_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  run_on_threads(static_cast<int>(threads), [this](int) {
    static thread_local ForwardScratch scratch;
    try {
      for (;;) {
        poll_interrupt();
        const int64_t claimed = next_.fetch_add(1, std::memory_order_relaxed);
        if (claimed >= num_tasks() || failed_.load(std::memory_order_relaxed)) return;
        const Task& task = tasks_[static_cast<size_t>(claimed)];
        if (task.block < 0) {
          pack(task);
        } else {
          compute(task, scratch);
        }
      }
    } catch (...) {
      failed_.store(true);  // those who wait for this task give up
      throw;
    }
  });
  if (packed_k_.bytes() + packed_v_.bytes() > kept_bytes) {
    packed_k_.release();
    packed_v_.release();
  }
  if (partials_.bytes() > kept_bytes) partials_.release();
}

void cpu_forward(const AttentionProblem& problem, const Mask& mask) {
  static thread_local ForwardSchedule schedule;
  ForwardConfig config = choose_forward(problem);
  const TileSource source = TileSource::make(mask, problem.sequences, problem.h_q, problem.h_kv, config.request(),
                                             pool_workers(problem.num_threads));
  schedule.build(problem, source, config);
  schedule.run(problem, source, config);
}

}  // namespace anymask
