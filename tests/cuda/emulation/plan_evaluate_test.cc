// plan_evaluate from its own source on the emulator: bit tiles of masks over lists of keys, whose arrays lie on the
// device, against the definition; folded tiles, transposed ones, rows and keys beyond the plane.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/emulation/block_keywords.h"
// Keywords come first: kernels are written with them. What the other kernels of the file use is declared alone, and
// their shared memory is none.
#include "cuda/emulation/launches.h"
#undef __shared__
#define __shared__
#undef __global__
#define __global__ inline  // only what runs is compiled
#define __noinline__
uint32_t __float_as_uint(float x);
int __ffs(int x);
unsigned __match_any_sync(unsigned mask, int value);
template <class T>
T atomicMax(T* to, T value);
template <class T>
T atomicMin(T* to, T value);
template <class T>
T atomicAdd(T* to, T value);
unsigned long long __shfl_xor_sync(unsigned mask, unsigned long long value, int lanes);
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "cuda/kernels/plan_build.cuh"
#include "cuda/plan/upload.h"
#include "mask/bound_mask.h"
#include "mask/plane_code.h"

namespace anymask {
namespace {

class Lists {
 public:
  explicit Lists(uint32_t seed) : rng_(seed) {
    shape_.tile_m = 64 * pick(1, 4);
    shape_.transposed = pick(0, 2) == 0;
    if (!shape_.transposed) shape_.fold = std::array{1, 2, 4, 8, 64}[static_cast<size_t>(pick(0, 4))];
    if (shape_.tile_m % shape_.fold != 0) shape_.fold = 1;
    for (int i = pick(1, 3); i > 0; --i) lists_.push_back(list());
    for (const List& list : lists_) {
      const PlaneMask among = row_band(list.s_q, list.s_kv, list.s_q, list.among[0].data(), list.among[1].data());
      const PlaneMask rest = row_band(list.s_q, list.s_kv, list.s_q, list.rest[0].data(), list.rest[1].data());
      bands_.push_back(among);
      mask_.plane_of.push_back(static_cast<int32_t>(mask_.planes.size()));
      mask_.planes.push_back(
          columns_of_band(among, list.bounded ? &rest : nullptr, list.rows[0].data(), list.rows[1].data()));
      problem_.sequences.push_back({.s_q = list.s_q, .s_kv = list.s_kv});
    }
    problem_.h_q = 64;
    problem_.h_kv = 1;
    problem_.d_qk = problem_.d_v = 64;
  }

  void check_bits() {
    const PlanUpload upload(mask_, problem_, shape_);
    std::vector<std::max_align_t> memory(upload.size() / sizeof(std::max_align_t) + 1);
    PlanBuild build = upload.parts(memory.data());
    std::vector<MixedTile> mixed;
    for (const BuildPlane& plane : upload.planes)
      for (int32_t row = 0; row < plane.m_blocks; ++row)
        for (int32_t n = 0; n < plane.n_blocks; ++n) mixed.push_back({plane.first_row + row, n});
    BuildHeader header = upload.header;
    header.counters.bit_tiles = static_cast<uint32_t>(mixed.size());
    const std::vector<std::byte> bytes = upload.bytes(header, build.header);
    std::memcpy(static_cast<void*>(memory.data()), bytes.data(), bytes.size());
    const auto tile_words = static_cast<size_t>(shape_.tile_m) * 4;
    std::vector<uint32_t> units(mixed.size() * tile_words, 0xdeadbeefu), kinds(mixed.size(), 0xffffffffu);
    build.mixed = mixed.data();
    build.bit_units = units.data();
    build.tile_kinds = kinds.data();
    emulation::run({.grid = dim3(static_cast<unsigned>(pick(1, 3))),
                    .threads = plan_build::evaluate_threads,
                    .schedule = emulation::schedule},
                   [&] { plan_build::plan_evaluate(build); });
    for (size_t tile = 0; tile < mixed.size(); ++tile)
      check_tile(upload, mixed[tile], &units[tile * tile_words], kinds[tile]);
  }

  // What bounds say of a band that stands beside other leaves.
  void check_classes() {
    for (size_t i = 0; i < lists_.size(); ++i) {
      const List& list = lists_[i];
      const LeafArgs& band = bands_[i].code().leaves[0]->args;
      for (int again = 0; again < 50; ++again) {
        Rect r{pick(0, list.s_q - 1), 0, pick(0, list.s_kv - 1), 0};
        r.q_end = pick(static_cast<int>(r.q_begin) + 1, list.s_q);
        r.kv_end = pick(static_cast<int>(r.kv_begin) + 1, list.s_kv);
        bool any = false, all = true;
        for (auto q = static_cast<size_t>(r.q_begin); q < static_cast<size_t>(r.q_end); ++q) {
          any |= list.among[0][q] < r.kv_end && r.kv_begin < list.among[1][q] && list.among[0][q] < list.among[1][q];
          all &= list.among[0][q] <= r.kv_begin && r.kv_end <= list.among[1][q];
        }
        const Kept kept = RowIntervals::sketch(band, r);
        ASSERT_TRUE(!any || kept != Kept::empty);
        ASSERT_EQ(kept == Kept::full, all);
      }
    }
  }

 private:
  struct List {
    int32_t s_q, s_kv;
    bool bounded;
    std::array<std::vector<int64_t>, 2> among, rest;  // of rows
    std::array<std::vector<int64_t>, 2> rows;         // of keys
  };

  int32_t pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng_); }

  std::array<std::vector<int64_t>, 2> band(int32_t lines, int32_t keys) {
    std::array<std::vector<int64_t>, 2> out;
    int64_t begin = 0, end = pick(0, keys);
    for (int32_t q = 0; q < lines; ++q) {
      begin += pick(0, 9) == 0 ? pick(0, 9) : 0;
      end = std::max(end + pick(0, 2), begin);
      out[0].push_back(std::min<int64_t>(begin, keys));
      out[1].push_back(std::min<int64_t>(end, keys));
    }
    return out;
  }

  List list() {
    List out{pick(1, 300), pick(1, 400), pick(0, 1) == 0, {}, {}, {}};
    out.among = band(out.s_q, out.s_kv);
    out.rest = band(out.s_q, out.s_kv);
    for (int32_t key = 0; key < out.s_kv; ++key) {
      const int32_t begin = pick(0, 3) == 0 ? pick(0, out.s_q) : 0;
      out.rows[0].push_back(begin);
      out.rows[1].push_back(pick(0, 3) == 0 ? pick(begin, out.s_q) : out.s_q);
    }
    return out;
  }

  static bool keeps(const List& list, int64_t row, int64_t column) {
    if (row >= list.s_q || column >= list.s_kv) return false;
    const auto q = static_cast<size_t>(row), kv = static_cast<size_t>(column);
    const auto inside = [](const auto& ends, size_t line, int64_t x) {
      return ends[0][line] <= x && x < ends[1][line];
    };
    return inside(list.rows, kv, row) && inside(list.among, q, column) &&
           (!list.bounded || inside(list.rest, q, column));
  }

  void check_tile(const PlanUpload& upload, MixedTile tile, const uint32_t* bits, uint32_t kinds) {
    size_t p = 0;
    while (p + 1 < upload.planes.size() && upload.planes[p + 1].first_row <= tile.row) ++p;
    const List& list = lists_[p];
    const int64_t first = int64_t{tile.row - upload.planes[p].first_row} * upload.tile_rows();
    for (int32_t unit = 0; unit < shape_.tile_m / 64; ++unit) {
      bool any = false, cut = false, cut_inside = false;
      for (int32_t line = unit * 64; line < unit * 64 + 64; ++line) {
        const int64_t row = first + line / shape_.fold;
        for (int32_t i = 0; i < 128; ++i) {
          const int64_t column = int64_t{tile.n} * 128 + i;
          const int64_t q = shape_.transposed ? column : row, kv = shape_.transposed ? row : column;
          const bool want = keeps(list, q, kv), inside = q < list.s_q && kv < list.s_kv;
          ASSERT_EQ(bits[line * 4 + i % 8 / 2] >> (i / 8 * 2 + i % 2) & 1, want ? 1u : 0u)
              << "row " << row << ", column " << column << ", fold " << shape_.fold << ", tile_m " << shape_.tile_m;
          any |= want;
          cut |= !want;
          cut_inside |= inside && !want;
        }
      }
      const uint32_t want = (any ? 1u : 0u) | (cut ? 2u : 0u) | (cut_inside ? 4u : 0u);
      ASSERT_EQ(kinds >> (8 * unit) & 0xff, want);
    }
  }

  std::mt19937 rng_;
  PlanShape shape_{};
  std::vector<List> lists_;
  std::vector<PlaneMask> bands_;
  BoundMask mask_;
  AttentionProblem problem_;
};

class PlanEvaluate : public testing::TestWithParam<emulation::Schedule> {
 protected:
  void SetUp() override { emulation::schedule = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Emulated, PlanEvaluate, testing::Values(emulation::Schedule::early, emulation::Schedule::late),
                         [](const auto& of) { return of.param == emulation::Schedule::early ? "early" : "late"; });

TEST_P(PlanEvaluate, ListsOfKeys) {
  for (uint32_t seed = 1; seed <= 30 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Lists lists(seed);
    lists.check_bits();
    lists.check_classes();
  }
}

}  // namespace
}  // namespace anymask
