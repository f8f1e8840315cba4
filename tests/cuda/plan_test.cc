// Plans built on the device against plans built on the host: every kind, random expressions, both orientations; bounds
// on their memory; capture and replay; how long a build takes.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "core/error.h"
#include "cuda/captured.h"
#include "cuda/launch/device.h"
#include "cuda/launch/plan.h"
#include "cuda/plan/capacity.h"
#include "cuda/plan/upload.h"
#include "mask/bound_mask.h"
#include "mask/kinds/random_arguments.h"
#include "mask/registry.h"
#include "plan/builder.h"

namespace anymask {
namespace {

std::vector<Sequence> sequences_of(int64_t batch, int64_t s_q, int64_t s_kv) {
  std::vector<Sequence> sequences(static_cast<size_t>(batch));
  for (int64_t i = 0; i < batch; ++i) sequences[static_cast<size_t>(i)] = {i, 0, s_q, 0, s_kv};
  return sequences;
}

AttentionProblem problem_of(std::vector<Sequence> sequences, int64_t h_q, int64_t h_kv, int64_t d = 64) {
  AttentionProblem problem;
  problem.h_q = h_q;
  problem.h_kv = h_kv;
  problem.d_qk = problem.d_v = d;
  problem.dtype = DType::bf16;
  problem.sequences = std::move(sequences);
  return problem;
}

// Device memory, and a copy of it.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&data_, bytes + 256), "allocating");  // a guard behind it
    poison();
  }
  ~Memory() { cudaFree(data_); }
  void poison() { check_cuda(cudaMemset(data_, 0xff, bytes_ + 256), "poisoning"); }
  void* data() const { return data_; }
  void download() {
    host_.resize(bytes_ + 256);
    check_cuda(cudaDeviceSynchronize(), "running");
    check_cuda(cudaMemcpy(host_.data(), data_, host_.size(), cudaMemcpyDeviceToHost), "downloading");
  }
  bool guard_intact() const {
    return std::all_of(host_.end() - 256, host_.end(), [](unsigned char byte) { return byte == 0xff; });
  }
  template <class T>
  const T* at(const T* device) const {
    return reinterpret_cast<const T*>(host_.data() +
                                      (reinterpret_cast<const char*>(device) - static_cast<char*>(data_)));
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
  std::vector<unsigned char> host_;
};

uint32_t quarter(uint64_t low, uint64_t high, int c) {
  uint32_t word = 0;
  for (int col = 0; col < 128; ++col) {
    if (col % 8 / 2 != c) continue;
    const uint64_t bit = (col < 64 ? low >> col : high >> (col - 64)) & 1;
    word |= static_cast<uint32_t>(bit) << (col / 8 * 2 + col % 2);
  }
  return word;
}

struct Tile {
  int32_t n;
  bool full;
  int32_t bits;
};

std::vector<Tile> tiles_of(const Run* runs, int32_t num, int32_t n_begin, int32_t n_end) {
  std::vector<Tile> tiles;
  for (int32_t r = 0; r < num; ++r) {
    const int32_t begin = r == 0 ? std::max(n_begin, runs[r].n_begin) : runs[r].n_begin;
    const int32_t end = r == num - 1 ? std::min(n_end, runs[r].n_end) : runs[r].n_end;
    for (int32_t n = begin; n < end; ++n) {
      const bool full = runs[r].kind == RunKind::full;
      tiles.push_back(
          {n, full, full ? 0 : runs[r].bits + (runs[r].kind == RunKind::partial ? n - runs[r].n_begin : 0)});
    }
  }
  return tiles;
}

// Maximal runs of a kind, whatever the bit tiles.
std::vector<std::array<int32_t, 3>> maximal(const Run* runs, int64_t num) {
  std::vector<std::array<int32_t, 3>> out;
  for (int64_t r = 0; r < num; ++r) {
    const int32_t kind = runs[r].kind == RunKind::full ? 0 : 1;
    if (!out.empty() && out.back()[1] == runs[r].n_begin && out.back()[2] == kind) {
      out.back()[1] = runs[r].n_end;
    } else {
      out.push_back({runs[r].n_begin, runs[r].n_end, kind});
    }
  }
  return out;
}

void compare_bits(const Memory& memory, const CudaPlan& plan, int32_t tile, const TilePlan& expected,
                  int32_t expected_tile) {
  const int32_t units = plan.tile_m / 64;
  const uint64_t* rows = expected.bit_tiles.data() + static_cast<size_t>(expected_tile) * expected.words_per_tile();
  const uint32_t* words = memory.at(plan.bit_units) + int64_t{tile} * units * 256;
  uint32_t kinds = 0;
  for (int32_t u = 0; u < units; ++u) {
    uint64_t any = 0, all = ~uint64_t{0};
    for (int32_t r = u * 64; r < u * 64 + 64; ++r) {
      const uint64_t* row = rows + 2 * plan.fold.token(r);
      any |= row[0] | row[1];
      all &= row[0] & row[1];
      for (int c = 0; c < 4; ++c) ASSERT_EQ(words[r * 4 + c], quarter(row[0], row[1], c)) << r << ' ' << c;
    }
    kinds |= (any == 0 ? 0u : all == ~uint64_t{0} ? 1u : 2u) << (2 * u);
  }
  ASSERT_EQ(memory.at(plan.tile_kinds)[tile], kinds);
}

// Where heads are folded, a tile's rows are its tokens', each as often as there are heads.
void compare(const Memory& memory, const CudaPlan& plan, const AttentionProblem& problem, const PlanShape& shape,
             const BoundMask& bound, const CudaPlanSource& source) {
  const TilePlan expected = build_plan(
      bound, {.tile_m = shape.tile_m / shape.fold, .tile_n = 128, .transposed = shape.transposed, .split_cost = 0});
  ASSERT_TRUE(memory.guard_intact());
  ASSERT_EQ(plan.tile_m, shape.tile_m);
  ASSERT_EQ(plan.fold.heads(), shape.fold);
  const int64_t heads = shape.per_kv_head ? problem.h_kv : problem.h_q / shape.fold, group = problem.h_q / heads;
  const int32_t num_items = *memory.at(plan.num_items);
  ASSERT_GE(num_items, 0);
  ASSERT_LE(num_items, source.max_items());
  const CudaItem* items = memory.at(plan.items);
  std::map<std::array<int32_t, 3>, std::vector<CudaItem>> rows;
  for (int32_t i = 0; i < num_items; ++i)
    rows[{items[i].sequence, items[i].head, items[i].m_block}].push_back(items[i]);
  std::set<int32_t> slots;
  size_t num_rows = 0;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    for (int64_t head = 0; head < heads; ++head) {
      const PlanPlane& plane =
          expected.planes[static_cast<size_t>(expected.plane(static_cast<int64_t>(s), head * group))];
      for (int32_t m = 0; m < plane.m_blocks; ++m, ++num_rows) {
        const int64_t* row = expected.row_begin.data() + plane.first_row + m;
        const auto num_runs = static_cast<int32_t>(row[1] - row[0]);
        const Run* runs = expected.runs.data() + row[0];
        std::vector<CudaItem>& pieces = rows[{static_cast<int32_t>(s), static_cast<int32_t>(head), m}];
        ASSERT_FALSE(pieces.empty());
        std::sort(pieces.begin(), pieces.end(), [](const CudaItem& a, const CudaItem& b) { return a.split < b.split; });
        std::vector<Tile> found;
        for (size_t i = 0; i < pieces.size(); ++i) {
          ASSERT_EQ(pieces[i].split, static_cast<int32_t>(i));
          ASSERT_EQ(pieces[i].num_splits, static_cast<int32_t>(pieces.size()));
          if (pieces.size() > 1) {
            ASSERT_EQ(pieces[i].partial, pieces[0].partial);
            const int32_t slot = pieces[i].partial + static_cast<int32_t>(i);
            ASSERT_LT(slot, source.partial_slots());
            ASSERT_TRUE(slots.insert(slot).second);
          }
          const std::vector<Tile> more =
              tiles_of(memory.at(plan.runs) + pieces[i].run_begin, pieces[i].run_end - pieces[i].run_begin,
                       pieces[i].n_begin, pieces[i].n_end);
          ASSERT_TRUE(pieces.size() == 1 || !more.empty());
          found.insert(found.end(), more.begin(), more.end());
        }
        const std::vector<Tile> wanted =
            num_runs == 0 ? std::vector<Tile>{} : tiles_of(runs, num_runs, runs[0].n_begin, runs[num_runs - 1].n_end);
        ASSERT_EQ(found.size(), wanted.size()) << "row of tiles " << m;
        for (size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_EQ(found[i].n, wanted[i].n);
          ASSERT_EQ(found[i].full, wanted[i].full) << m << ' ' << wanted[i].n;
          if (!wanted[i].full) compare_bits(memory, plan, found[i].bits, expected, wanted[i].bits);
          if (testing::Test::HasFatalFailure()) return;
        }
        // Canonical: the row's runs are maximal as they stand.
        const auto canonical = maximal(runs, num_runs);
        const CudaItem &first = pieces.front(), &last = pieces.back();
        ASSERT_EQ(static_cast<size_t>(last.run_end - first.run_begin), canonical.size());
        for (size_t i = 0; i < canonical.size(); ++i) {
          const Run& run = memory.at(plan.runs)[static_cast<size_t>(first.run_begin) + i];
          ASSERT_EQ((std::array<int32_t, 3>{run.n_begin, run.n_end, run.kind == RunKind::full ? 0 : 1}), canonical[i]);
        }
      }
    }
  }
  ASSERT_EQ(rows.size(), num_rows);
}

BoundMask bound_to(const Mask& mask, const AttentionProblem& problem) {
  return anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv);
}

void check_plan(const Mask& mask, const AttentionProblem& problem, const PlanShape& shape) {
  const BoundMask bound = bound_to(mask, problem);
  std::optional<Memory> memory;
  const CudaPlanSource source(bound, problem, shape, cuda_device(0));
  memory.emplace(source.bytes());
  const CudaPlan plan = source.enqueue(memory->data(), nullptr);
  memory->download();
  compare(*memory, plan, problem, shape, bound, source);
}

// A mask's arrays in device memory, poison around them.
class OnDevice {
 public:
  explicit OnDevice(const Mask& mask) {
    std::vector<Array> arrays = mask.program().arrays;
    for (Array& array : arrays) {
      const Array contiguous = Array::own(array.view);
      memory_.push_back(std::make_unique<Memory>(bytes(contiguous.view)));
      array = Array::borrow(contiguous.view, array.name);
      array.view.device = device;
      array.view.data = memory_.back()->data();
    }
    mask_ = mask.with_arrays(std::move(arrays));
    write(mask);
  }
  // The contents of another mask's arrays, of the same shapes.
  void write(const Mask& mask) const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const Array from = Array::own(mask.program().arrays[i].view);
      ASSERT_EQ(bytes(from.view), bytes(mask_.program().arrays[i].view));
      check_cuda(cudaMemcpy(memory_[i]->data(), from.view.data, bytes(from.view), cudaMemcpyHostToDevice), "uploading");
    }
  }
  const Mask& mask() const { return mask_; }
  BoundMask bound(const AttentionProblem& problem) const {
    return anymask::bind(mask_, problem.sequences, problem.h_q, problem.h_kv, device);
  }

 private:
  static constexpr Device device{DeviceKind::cuda, 0};
  static size_t bytes(const TensorView& view) { return static_cast<size_t>(view.numel() * size_of(view.dtype)); }
  std::vector<std::unique_ptr<Memory>> memory_;
  Mask mask_;
};

void check_plan_on_device(const Mask& mask, const AttentionProblem& problem, const PlanShape& shape) {
  const OnDevice there(mask);
  const CudaPlanSource source(there.bound(problem), problem, shape, cuda_device(0));
  Memory memory(source.bytes());
  const CudaPlan plan = source.enqueue(memory.data(), nullptr);
  memory.download();
  compare(memory, plan, problem, shape, bound_to(mask, problem), source);
}

// All do, but neighborhood, whose arrays decide what the host prepares.
bool reads_arrays_on_device(const Mask& mask) {
  const auto& code = mask.program().code;
  return std::none_of(code.begin(), code.end(), [](const Instruction& i) { return i.op == Op::neighborhood; });
}

class CudaPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    const Support support = cuda_available();
    if (!support.yes) GTEST_SKIP() << support.reason;
  }
};

struct Lengths {
  int64_t s_q, s_kv;
};
constexpr Lengths lengths[] = {{1, 1},     {1, 300},   {300, 1},   {63, 65},  {64, 64},   {128, 128},
                               {0, 100},   {100, 0},   {97, 500},  {500, 97}, {333, 333}, {0, 0},
                               {257, 513}, {640, 640}, {129, 900}, {700, 200}};

PlanShape shape_of(uint64_t seed) {
  constexpr int32_t tiles[] = {64, 128, 192, 256};
  constexpr int32_t blocks[] = {0, 1, 4, 16};
  return {.tile_m = tiles[seed % 4],
          .transposed = seed / 4 % 2 == 1,
          .per_kv_head = false,
          .parallelism = blocks[seed / 8 % 4]};
}

TEST_F(CudaPlanTest, EveryKind) {
  for (const MaskKind& kind : mask_kinds()) {
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      std::mt19937_64 rng(seed);
      const Lengths l = lengths[seed % std::size(lengths)];
      const Mask mask = kind.random(rng, {l.s_q, l.s_kv, 2, 2, 1});
      check_plan(mask, problem_of(sequences_of(2, l.s_q, l.s_kv), 2, 1), shape_of(seed * 5));
      if (HasFailure()) FAIL() << kind.name << ", seed " << seed << ", " << l.s_q << " x " << l.s_kv;
    }
  }
}

TEST_F(CudaPlanTest, RandomExpressions) {
  for (uint64_t seed = 1; seed <= 1200; ++seed) {
    const Lengths l = lengths[seed % std::size(lengths)];
    const ExampleShape shape{l.s_q, l.s_kv, 2, 4, 2};
    const Mask mask = random_mask(seed, shape, 1 + static_cast<int>(seed % 6));
    check_plan(mask, problem_of(sequences_of(2, l.s_q, l.s_kv), 4, 2), shape_of(seed / 16));
    if (HasFailure()) FAIL() << "seed " << seed << ", " << l.s_q << " x " << l.s_kv << ": " << mask.str();
  }
}

// The same plans, bit for bit, of arrays in device memory.
TEST_F(CudaPlanTest, EveryKindOnDevice) {
  for (const MaskKind& kind : mask_kinds()) {
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      std::mt19937_64 rng(seed);
      const Lengths l = lengths[seed % std::size(lengths)];
      const Mask mask = kind.random(rng, {l.s_q, l.s_kv, 2, 2, 1});
      if (mask.program().arrays.empty() || !reads_arrays_on_device(mask)) continue;
      check_plan_on_device(mask, problem_of(sequences_of(2, l.s_q, l.s_kv), 2, 1), shape_of(seed * 5));
      if (HasFailure()) FAIL() << kind.name << ", seed " << seed << ", " << l.s_q << " x " << l.s_kv;
    }
  }
}

TEST_F(CudaPlanTest, RandomExpressionsOnDevice) {
  int checked = 0;
  for (uint64_t seed = 1; seed <= 800; ++seed) {
    const Lengths l = lengths[seed % std::size(lengths)];
    const Mask mask = random_mask(seed, {l.s_q, l.s_kv, 2, 4, 2}, 1 + static_cast<int>(seed % 6));
    if (mask.program().arrays.empty() || !reads_arrays_on_device(mask)) continue;
    ++checked;
    check_plan_on_device(mask, problem_of(sequences_of(2, l.s_q, l.s_kv), 4, 2), shape_of(seed / 16));
    if (HasFailure()) FAIL() << "seed " << seed << ", " << l.s_q << " x " << l.s_kv << ": " << mask.str();
  }
  EXPECT_GT(checked, 200);
}

// Which masks leave the selection as the plan's tiles, and how many sets of keys are evaluated for it. Asks no device.
TEST(PlanUpload, TilesOfSelections) {
  constexpr int64_t s = 1000;
  alignas(16) static uint8_t nothing[16] = {};  // an address; nobody reads it
  const auto array = [](const char* name, DType dtype, std::array<int64_t, 4> shape) {
    TensorView view;
    view.data = nothing;
    view.dtype = dtype;
    view.rank = 4;
    view.device = {DeviceKind::cuda, 0};
    int64_t stride = 1;
    for (size_t axis = 4; axis-- > 0; stride *= shape[axis]) {
      view.shape[axis] = shape[axis];
      view.stride[axis] = stride;
    }
    return Array::borrow(view, name);
  };
  const struct {
    const char* text;
    bool emits;
    size_t candidates;
  } cases[] = {{"topk(@b, 40)", true, 0},
               {"topk(@b, 40, causal)", true, 1},
               {"topk(@b, 40) & causal", true, 1},
               {"topk(@b, 40, causal) & causal", true, 1},
               {"topk(@b, 40, dense(@d))", true, 2},
               {"topk(@b, 40, dense(@p))", true, 2},
               {"topk(@b, 40, dense(@d) & causal) & causal", true, 2},
               {"topk(@b, 40, dense(@d)) & window(99, 0)", true, 3},
               {"topk(@b, 40) & dense(@d) & causal", true, 2},
               {"topk(@b, 40, causal | keys(50, 60))", true, 1},
               {"topk(@one, 40) & dense(@d)", true, 2},
               {"topk(@c, 9, topk(@b, 40, causal))", true, 17},
               {"topk(@b, 40) | causal", false, 0},
               {"~topk(@b, 40)", false, 0},
               {"topk(@b, 40) & topk(@c, 9)", false, 0},
               {"per_head([topk(@b, 40), causal, topk(@b, 40), full, topk(@b, 40), full, full, full])", false, 0}};
  const std::vector<Array> arrays{array("b", DType::f16, {2, 8, s, s}), array("c", DType::f16, {2, 8, s, s}),
                                  array("one", DType::f16, {1, 1, s, s}), array("d", DType::boolean, {2, 1, s, s}),
                                  array("p", DType::boolean, {2, 1, 1, s})};
  const AttentionProblem problem = problem_of(sequences_of(2, s, s), 8, 4);
  for (const auto& [text, emits, candidates] : cases) {
    const Mask mask = Mask::parse(text, arrays);
    for (const bool transposed : {false, true}) {
      const BoundMask bound = anymask::bind(mask, problem.sequences, 8, 4, {DeviceKind::cuda, 0});
      const PlanUpload upload(bound, problem, {.tile_m = 128, .transposed = transposed, .parallelism = 132});
      EXPECT_EQ(upload.emits_tiles, emits && !transposed) << text;
      if (transposed) continue;
      size_t sets = 0;
      for (const PlanUpload::Selection& selection : upload.selections)
        sets += static_cast<size_t>(selection.candidates);
      EXPECT_EQ(sets, candidates) << text;
    }
  }
}

// Rows selected where the bias lies: alone and with bands, where the selection writes the plan's tiles; in expressions,
// among bands, among anything, and among a selection; beside other masks.
TEST_F(CudaPlanTest, SelectedOnDevice) {
  const char* const texts[] = {"topk(@b, 40)",
                               "topk(@b, 40, causal)",
                               "topk(@b, 40) & causal",
                               "topk(@b, 40, causal) & window(200, 30)",
                               "topk(@b, 40) & window(150, -1) & prefix(500)",
                               "topk(@b, 500) & keys(100, 900)",
                               "~topk(@b, 40)",
                               "topk(@b, 3) | causal",
                               "topk(@b, 40, ~stride(3))",
                               "topk(@b, 40, causal | keys(500, 600)) & stride(2)",
                               "topk(@c, 10, topk(@b, 40, causal))",
                               "topk(@b, 20) & topk(@c, 40)",
                               "topk(@b, 0)",
                               "topk(@b, 5000) & causal",
                               "topk(@b, 40, dense(@d))",
                               "topk(@b, 40, dense(@d) & keys(3, 900)) & causal",
                               "topk(@b, 40, dense(@d)) & ~dense(@d)",
                               "topk(@b, 40) & dense(@d)",
                               "topk(@b, 40) & (dense(@d) | causal) & window(300, 40)",
                               "topk(@b, 40, causal | dense(@d)) & keys(2, 700)",
                               "topk(@c, 10, topk(@b, 40, dense(@d))) & keys(5, 1000)",
                               "per_head([topk(@b, 9) & causal, topk(@b, 9)])",
                               "per_head([topk(@b, 9), topk(@b, 11, causal)])"};
  for (uint64_t seed = 1; seed <= 4 * std::size(texts); ++seed) {
    const char* const text = texts[seed % std::size(texts)];
    const Lengths l = Lengths{static_cast<int64_t>(1 + seed * 131 % 700), static_cast<int64_t>(1 + seed * 97 % 1200)};
    std::mt19937_64 rng(seed);
    std::vector<Array> arrays;
    for (const char* name : {"b", "c"}) {
      const bool one_row = seed % 7 == 6, half = seed % 2 == 0;
      const std::vector<int64_t> shape{seed % 3 == 0 ? 2 : 1, seed % 5 == 0 ? 1 : 2, one_row ? 1 : l.s_q, l.s_kv};
      std::vector<float> values(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
      std::vector<uint16_t> narrow;
      for (float& x : values) {
        x = std::normal_distribution<float>{}(rng);
        narrow.push_back(seed % 4 == 0 ? f32_to_f16(x) : f32_to_bf16(x));
      }
      arrays.push_back(half ? example::arrange(rng, seed % 4 == 0 ? DType::f16 : DType::bf16, shape, narrow.data())
                            : example::arrange(rng, DType::f32, shape, values.data()));
      arrays.back().name = name;
    }
    const std::vector<int64_t> shape{2, 1, seed % 3 == 0 ? 1 : l.s_q, l.s_kv};
    std::vector<uint8_t> given(static_cast<size_t>(shape[0] * shape[2] * shape[3]));
    for (uint8_t& x : given) x = rng() % 3 != 0;
    arrays.push_back(example::arrange(rng, DType::boolean, shape, given.data()));
    arrays.back().name = "d";
    const Mask mask = Mask::parse(text, arrays);
    PlanShape plan = shape_of(seed / 2);
    if (!plan.transposed) plan.fold = 1 << (seed / 4 % 3);
    check_plan_on_device(mask, problem_of(sequences_of(2, l.s_q, l.s_kv), 8, 2), plan);
    if (HasFailure()) FAIL() << text << ", seed " << seed << ", " << l.s_q << " x " << l.s_kv;
  }
}

// Contents no check saw: the build ends, inside its memory, and so does one of right contents after it.
TEST_F(CudaPlanTest, WrongContentsOnDevice) {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> wild(60 * 2);
    for (int64_t& value : wild) value = static_cast<int64_t>(rng()) >> (rng() % 64);
    TensorView line;
    line.data = wild.data();
    line.dtype = DType::i64;
    line.rank = 1;
    line.shape[0] = 60;
    line.stride[0] = 1;
    TensorView lines = line;
    lines.rank = 2;
    lines.shape = {60, 2};
    lines.stride = {2, 1};
    const std::vector<Array> arrays{Array::borrow(line, "w"), Array::borrow(lines, "l")};
    for (const char* text : {"documents(@w)", "documents(@w, @w) & causal", "shared_prefix(7, @w)", "tree(@w)",
                             "row_intervals(@l, @l)", "~row_intervals(@l, @l) | documents(@w)", "prefix(@w)"}) {
      const bool batched = std::strstr(text, "prefix(@w)") == text;
      const AttentionProblem problem = problem_of(sequences_of(batched ? 60 : 1, 60, 700), 2, 1);
      const OnDevice there(Mask::parse(text, arrays));
      const CudaPlanSource source(there.bound(problem), problem, shape_of(rng()), cuda_device(0));
      Memory memory(source.bytes());
      static_cast<void>(source.enqueue(memory.data(), nullptr));
      memory.download();
      ASSERT_TRUE(memory.guard_intact()) << text;
    }
  }
}

// Captured once; replayed, it plans what the arrays hold then.
TEST_F(CudaPlanTest, ReplaysReadNewContents) {
  constexpr int64_t s_q = 300, s_kv = 700;
  int kinds = 0;
  for (const MaskKind& kind : mask_kinds()) {
    // Masks of this kind whose arguments differ in the contents of arrays alone.
    std::vector<Mask> masks;
    for (uint64_t seed = 1; seed <= 400 && masks.size() < 3; ++seed) {
      std::mt19937_64 rng(seed);
      Mask mask = kind.random(rng, {s_q, s_kv, 2, 2, 1});
      if (mask.program().arrays.empty() || !reads_arrays_on_device(mask)) continue;
      const auto alike = [&mask](const Mask& other) {
        const auto &a = mask.program().arrays, &b = other.program().arrays;
        return mask.program().code == other.program().code && mask.program().ints == other.program().ints &&
               std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Array& x, const Array& y) {
                 return x.view.rank == y.view.rank && x.view.shape == y.view.shape && x.view.dtype == y.view.dtype;
               });
      };
      if (masks.empty() || alike(masks[0])) masks.push_back(std::move(mask));
    }
    if (masks.size() < 2) continue;
    ++kinds;
    const AttentionProblem problem = problem_of(sequences_of(2, s_q, s_kv), 2, 1);
    const PlanShape shape{.parallelism = 4};
    const OnDevice there(masks[0]);
    auto source = std::make_unique<CudaPlanSource>(there.bound(problem), problem, shape, cuda_device(0));
    const CudaPlanSource other(there.bound(problem), problem, shape, cuda_device(0));
    Memory memory(source->bytes());
    CudaPlan plan;
    const Captured build([&](cudaStream_t stream) { plan = source->enqueue(memory.data(), stream); });
    source.reset();
    for (const Mask& mask : masks) {
      there.write(mask);
      memory.poison();
      build.replay();
      memory.download();
      compare(memory, plan, problem, shape, bound_to(mask, problem), other);
      if (HasFailure()) FAIL() << kind.name << ": " << mask.str();
    }
  }
  EXPECT_GE(kinds, 6);
}

// Rows of many tiles: groups of tiles, several words a row, and long rows that are cut.
TEST_F(CudaPlanTest, LongRows) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Lengths l = seed % 2 == 0 ? Lengths{130, 40'000} : Lengths{40'000, 130};
    const ExampleShape shape{l.s_q, l.s_kv, 1, 2, 1};
    const Mask mask = random_mask(seed, shape, 3);
    check_plan(mask, problem_of(sequences_of(1, l.s_q, l.s_kv), 2, 1), shape_of(seed / 2));
    if (HasFailure()) FAIL() << "seed " << seed << ", " << l.s_q << " x " << l.s_kv << ": " << mask.str();
  }
  for (const char* text : {"causal", "window(5000, 20)", "causal & stride(3)", "keys(100, 70000) | causal"}) {
    for (const bool transposed : {false, true}) {
      check_plan(Mask::parse(text), problem_of(sequences_of(1, 700, 90'000), 2, 1),
                 {.tile_m = 128, .transposed = transposed, .parallelism = 132});
      if (HasFailure()) FAIL() << text;
    }
  }
}

TEST_F(CudaPlanTest, FoldedHeads) {
  constexpr int32_t folds[] = {2, 4, 8, 16, 64};
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const int32_t fold = folds[seed % 5], heads = fold * (1 + static_cast<int32_t>(seed / 5 % 3));
    const Lengths l = lengths[seed / 3 % std::size(lengths)];
    PlanShape shape = shape_of(seed / 7);
    shape.transposed = false;
    shape.fold = fold;
    // A head of the mask for each kv head: its group shares the plane.
    const Mask mask = random_mask(seed, {l.s_q, l.s_kv, 2, 2, 2}, 1 + static_cast<int>(seed % 5));
    check_plan(mask, problem_of(sequences_of(2, l.s_q, l.s_kv), 2 * heads, 2), shape);
    if (HasFailure()) FAIL() << "seed " << seed << ", " << l.s_q << " x " << l.s_kv << ": " << mask.str();
  }
}

TEST_F(CudaPlanTest, RaggedSequences) {
  const std::vector<Sequence> sequences{{0, 0, 70, 0, 70},      {0, 70, 0, 70, 5},   {0, 70, 129, 75, 200},
                                        {0, 199, 70, 275, 70},  {0, 269, 1, 345, 0}, {0, 270, 3000, 345, 9000},
                                        {0, 3270, 70, 9345, 70}};
  for (uint64_t seed = 0; seed < 32; ++seed) {
    for (const char* text : {"causal & stride(3) | keys(0, 2)", "causal", "per_head([causal, full])"}) {
      PlanShape shape = shape_of(seed);
      shape.per_kv_head = seed % 3 == 0 && std::strstr(text, "per_head") == nullptr;
      check_plan(Mask::parse(text), problem_of(sequences, 4, 2, seed % 2 == 0 ? 64 : 256), shape);
      if (HasFailure()) FAIL() << text << ", seed " << seed;
    }
  }
}

TEST_F(CudaPlanTest, NoSequences) { check_plan(Mask::parse("causal"), problem_of({}, 4, 2), {}); }

// Items of a section (here three kv heads) stand together, and in each the costlier come first.
TEST_F(CudaPlanTest, ItemsAreSortedInsideSections) {
  const AttentionProblem problem = problem_of(sequences_of(1, 5000, 5000), 16, 8, 256);
  const CudaPlanSource source(bound_to(Mask::parse("causal"), problem), problem, {}, cuda_device(0));
  Memory memory(source.bytes());
  const CudaPlan plan = source.enqueue(memory.data(), nullptr);
  memory.download();
  const int32_t num = *memory.at(plan.num_items);
  ASSERT_EQ(num, 16 * 40);
  const CudaItem* items = memory.at(plan.items);
  for (int32_t i = 0; i < num; ++i) {
    EXPECT_EQ(items[i].head / 6, i / 240);
    EXPECT_TRUE(i % 240 == 0 || items[i].m_block <= items[i - 1].m_block);
  }
}

// A captured build owns what it uploads: it runs again after its source is gone, into memory that was overwritten.
TEST_F(CudaPlanTest, CapturedAndReplayed) {
  std::vector<uint8_t> dense(600 * 700);
  std::mt19937_64 rng(1);
  for (uint8_t& value : dense) value = rng() % 3 == 0;
  TensorView view;
  view.data = dense.data();
  view.dtype = DType::boolean;
  view.rank = 2;
  view.shape = {600, 700};
  view.stride = {700, 1};
  const std::vector<Array> arrays{Array::own(view, "dense")};
  for (const char* text : {"causal & documents([0, 100, 480, 700])", "dense(@dense) & causal"}) {
    const Mask mask = Mask::parse(text, arrays);
    const AttentionProblem problem = problem_of(sequences_of(1, 600, 700), 2, 1);
    const PlanShape shape{.parallelism = 4};
    auto source = std::make_unique<CudaPlanSource>(bound_to(mask, problem), problem, shape, cuda_device(0));
    const auto other = std::make_unique<CudaPlanSource>(bound_to(mask, problem), problem, shape, cuda_device(0));
    Memory memory(source->bytes());
    CudaPlan plan;
    const Captured build([&](cudaStream_t stream) { plan = source->enqueue(memory.data(), stream); });
    source.reset();
    for (int replay = 0; replay < 3; ++replay) {
      memory.poison();
      build.replay();
      memory.download();
      compare(memory, plan, problem, shape, anymask::bind(mask, problem.sequences, 2, 1), *other);
      if (HasFailure()) FAIL() << text;
    }
  }
}

// Needs no device: what the host's plan holds never exceeds the bound. (That classification leaves no more tiles mixed
// than the bound is what every test above shows, since a build beyond it traps.)
TEST(CudaPlanCapacity, BoundsHold) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const Lengths l = lengths[seed % std::size(lengths)];
    const Mask mask = random_mask(seed, {l.s_q, l.s_kv, 1, 1, 1}, 1 + static_cast<int>(seed % 4));
    const BoundMask bound = anymask::bind(mask, sequences_of(1, l.s_q, l.s_kv), 1, 1);
    const PlanShape shape = shape_of(seed / 16);
    // Of folded tiles too: few rows of the plane.
    const int32_t tile_m = shape.transposed ? shape.tile_m : shape.tile_m >> seed % 5;
    const TilePlan plan =
        build_plan(bound, {.tile_m = tile_m, .tile_n = 128, .transposed = shape.transposed, .split_cost = 0});
    const PlanCapacity capacity = plan_capacity(bound.planes[0], tile_m, shape.transposed);
    ASSERT_LE(plan.planes[0].partial_tiles, capacity.bit_tiles) << seed << ' ' << mask.str();
    ASSERT_LE(static_cast<int64_t>(maximal(plan.runs.data(), static_cast<int64_t>(plan.runs.size())).size()),
              capacity.runs)
        << seed << ' ' << mask.str();
  }
}

TEST(CudaPlanCapacity, AMillionPositionsAreLinear) {
  constexpr int64_t s = int64_t{1} << 20;
  std::vector<int64_t> cu{0};
  std::mt19937_64 rng(1);
  while (cu.back() < s) cu.push_back(std::min<int64_t>(s, cu.back() + 500 + static_cast<int64_t>(rng() % 3000)));
  const Mask mask = Mask::parse("causal & window(1023, 0) & documents(@cu)", std::vector{Array::own(cu, "cu")});
  const BoundMask bound = anymask::bind(mask, sequences_of(1, s, s), 1, 1);
  for (const bool transposed : {false, true}) {
    const PlanCapacity capacity = plan_capacity(bound.planes[0], 128, transposed);
    EXPECT_LE(capacity.bit_tiles * 2052 + capacity.runs * 16 + (s / 128) * 96, int64_t{64} << 20);
  }
}

Array integers(const char* name, const std::vector<int64_t>& values) { return Array::own(values, name); }

Array table(const char* name, DType type, int64_t rows, int64_t cols, void* data) {
  TensorView view;
  view.data = data;
  view.dtype = type;
  view.rank = 2;
  view.shape = {rows, cols};
  view.stride = {cols, 1};
  return Array::borrow(view, name);
}

struct Timed {
  std::string name;
  Mask mask;
  int64_t s_q, s_kv, batch, h_q, h_kv;
};

std::vector<Timed> timed_masks() {
  std::vector<Timed> cases;
  std::mt19937_64 rng(7);
  static std::vector<std::vector<uint8_t>> held;
  static std::vector<std::vector<int64_t>> numbers;
  for (const int64_t s : {int64_t{8192}, int64_t{16384}, int64_t{65536}, int64_t{131072}}) {
    const std::string k = std::to_string(s / 1024) + "k ";
    std::vector<int64_t> cu{0};
    for (int i = 1; i < 12; ++i) cu.push_back(s * i / 12 + static_cast<int64_t>(rng() % 600));
    cu.push_back(s);
    cases.push_back({k + "causal", Mask::parse("causal"), s, s, 1, 32, 32});
    cases.push_back({k + "causal & documents", Mask::parse("causal & documents(@cu)", std::vector{integers("cu", cu)}),
                     s, s, 1, 32, 32});
    cases.push_back(
        {k + "window | keys", Mask::parse("causal & window(1023, 0) | causal & keys(0, 64)"), s, s, 1, 32, 32});
    std::vector<int64_t> parts(50, 100);
    parts.push_back(s - s * 3 / 4 - 5000 > 0 ? s - s * 3 / 4 - 5000 : 0);
    if (s >= 16384 * 2) {
      cases.push_back(
          {k + "shared_prefix",
           Mask::parse("shared_prefix(" + std::to_string(s * 3 / 4) + ", @l)", std::vector{integers("l", parts)}), s, s,
           1, 32, 8});
    }
    const int64_t side = s / 128;
    held.emplace_back(static_cast<size_t>(side * side));
    for (uint8_t& value : held.back()) value = rng() % 10 == 0;
    cases.push_back(
        {k + "blocks 128, 10%",
         Mask::parse("blocks(@m, 128, 128)", std::vector{table("m", DType::boolean, side, side, held.back().data())}),
         s, s, 1, 32, 8});
    numbers.emplace_back();
    numbers.emplace_back();
    for (int64_t i = 0; i < s; ++i) {
      numbers[numbers.size() - 2].push_back(i);
      numbers.back().push_back(std::min(s, (i / 3000 + 1) * 3000));
    }
    cases.push_back({k + "col_intervals",
                     Mask::parse("col_intervals(@b, @e)", std::vector{integers("b", numbers[numbers.size() - 2]),
                                                                      integers("e", numbers.back())}),
                     s, s, 1, 32, 8});
    std::vector<int64_t> parents;
    for (int64_t i = 0; i < s; ++i)
      parents.push_back(i == 0 ? -1 : i % 700 == 0 ? static_cast<int64_t>(rng() % static_cast<uint64_t>(i)) : i - 1);
    cases.push_back(
        {k + "tree of chains", Mask::parse("tree(@p)", std::vector{integers("p", parents)}), s, s, 1, 32, 8});
    if (s <= 16384) {
      held.emplace_back(static_cast<size_t>(s * s / 8));
      for (uint8_t& value : held.back()) value = static_cast<uint8_t>(rng() & rng() & rng());
      cases.push_back({k + "bits",
                       Mask::parse("bits(@m)", std::vector{table("m", DType::u8, s, s / 8, held.back().data())}), s, s,
                       1, 32, 8});
    }
  }
  std::vector<int64_t> parents;
  for (int64_t i = 0; i < 64; ++i)
    parents.push_back(i == 0 ? -1 : static_cast<int64_t>(rng() % static_cast<uint64_t>(i)));
  cases.push_back(
      {"tree of 64 over 8k", Mask::parse("tree(@p)", std::vector{integers("p", parents)}), 64, 8256, 16, 32, 8});
  cases.push_back({"29k shared_prefix",
                   Mask::parse("shared_prefix(24576, @l)", std::vector{integers("l", std::vector<int64_t>(50, 100))}),
                   29576, 29576, 1, 32, 8});
  constexpr int64_t million = int64_t{1} << 20;
  std::vector<int64_t> cu{0};
  while (cu.back() < million)
    cu.push_back(std::min<int64_t>(million, cu.back() + 500 + static_cast<int64_t>(rng() % 3000)));
  cases.push_back({"1M causal & window & documents",
                   Mask::parse("causal & window(1023, 0) & documents(@cu)", std::vector{integers("cu", cu)}), million,
                   million, 1, 8, 8});
  return cases;
}

// Prints figures: of the device (a captured build, replayed), and of the host (to prepare, and to enqueue).
TEST_F(CudaPlanTest, Timing) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::time_point from) {
    return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
  };
  cudaStream_t stream;
  check_cuda(cudaStreamCreate(&stream), "creating a stream");
  cudaEvent_t begin, end;
  check_cuda(cudaEventCreate(&begin), "creating an event");
  check_cuda(cudaEventCreate(&end), "creating an event");
  std::printf("%-32s %10s %10s | %9s %9s %9s\n", "mask", "us", "us transp.", "prepare", "enqueue", "MiB");
  for (const Timed& t : timed_masks()) {
    const AttentionProblem problem = problem_of(sequences_of(t.batch, t.s_q, t.s_kv), t.h_q, t.h_kv, 128);
    double device_us[2], prepare_us = 0, enqueue_us = 0, mib = 0;
    for (const bool transposed : {false, true}) {
      const PlanShape shape{.tile_m = 128, .transposed = transposed, .parallelism = 132};
      const auto bound_at = Clock::now();
      const CudaPlanSource source(bound_to(t.mask, problem), problem, shape, cuda_device(0));
      if (!transposed) prepare_us = us(bound_at);
      Memory memory(source.bytes());
      mib = static_cast<double>(source.bytes()) / (1 << 20);
      static_cast<void>(source.enqueue(memory.data(), stream));
      check_cuda(cudaStreamSynchronize(stream), "building");
      const auto enqueued_at = Clock::now();
      static_cast<void>(source.enqueue(memory.data(), stream));
      if (!transposed) enqueue_us = us(enqueued_at);
      check_cuda(cudaStreamSynchronize(stream), "building");
      constexpr int builds = 8;
      const Captured replays([&](cudaStream_t capturing) {
        for (int i = 0; i < builds; ++i) static_cast<void>(source.enqueue(memory.data(), capturing));
      });
      replays.launch();
      check_cuda(cudaEventRecord(begin, replays.stream()), "timing");
      replays.launch();
      check_cuda(cudaEventRecord(end, replays.stream()), "timing");
      check_cuda(cudaEventSynchronize(end), "timing");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin, end), "timing");
      device_us[transposed ? 1 : 0] = 1000.0 * static_cast<double>(ms) / builds;
    }
    std::printf("%-32s %10.1f %10.1f | %9.1f %9.1f %9.2f\n", t.name.c_str(), device_us[0], device_us[1], prepare_us,
                enqueue_us, mib);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace anymask
