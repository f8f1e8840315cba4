// What leaves read of arrays on a device, made there, against what bind() makes of the same arrays on the host: every
// kind, and contents that no check would have passed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cuda/emulation/block_keywords.h"
// Keywords come first: kernels are written with them.
#include "cuda/kernels/plan_prepare.cuh"
#include "mask/bound_mask.h"
#include "mask/kinds/documents.h"
#include "mask/plane_code.h"
#include "mask/registry.h"

namespace anymask {
namespace {

constexpr Device device{DeviceKind::cuda, 0};

// The mask with its arrays said to lie on the device. The emulator's device reads the host's memory.
Mask on_device(const Mask& mask) {
  std::vector<Array> arrays = mask.program().arrays;
  for (Array& array : arrays) {
    array.view.device = device;
    array.owner = nullptr;
  }
  return mask.with_arrays(std::move(arrays));
}

// A plane's leaves, with what the kernels made of their arrays.
struct Made {
  std::vector<LeafArgs> leaves;
  std::vector<MadeLeaf> made;
  std::vector<std::vector<uint64_t>> memory;
};

Made make(const PlaneMask& plane, emulation::Schedule schedule) {
  Made out;
  for (const auto& leaf : plane.code().leaves) {
    LeafArgs args = leaf->args;
    if (leaf->unread) {
      for (size_t slot = 0; slot < 4; ++slot) {
        if (leaf->held_bytes[slot] == 0) continue;
        out.memory.emplace_back(static_cast<size_t>(leaf->held_bytes[slot] / 8 + 1), 0xeeeeeeeeeeeeeeee);
        args.data[slot] = out.memory.back().data();
      }
      if (leaf->held_bytes[0] > 0)
        out.made.push_back({static_cast<int32_t>(out.leaves.size()), {leaf->sources[0], leaf->sources[1]}});
    }
    out.leaves.push_back(args);
  }
  PlanBuild build{};
  build.leaves = out.leaves.data();
  build.made = out.made.data();
  if (out.made.empty()) return out;
  const auto leaves = static_cast<unsigned>(out.made.size());
  emulation::run({.grid = dim3(leaves, 3), .threads = plan_build::prepare_threads, .schedule = schedule},
                 [&] { plan_build::plan_prepare(build); });
  emulation::run({.grid = dim3(leaves), .threads = plan_build::prepare_threads, .schedule = schedule},
                 [&] { plan_build::plan_heaps(build); });
  return out;
}

// The steps of a plane over leaves that were made, pair by pair; without steps a plane is one leaf.
bool keep(const PlaneMask& plane, const std::vector<LeafArgs>& leaves, int64_t q, int64_t kv) {
  std::vector<bool> stack;
  for (size_t i = 0; i < plane.code().steps.size(); ++i) {
    const PlaneStep& step = plane.code().steps[i];
    const auto pop = [&stack] {
      const bool last = stack.back();
      stack.pop_back();
      return last;
    };
    switch (step.step) {
      case Step::leaf:
        stack.push_back(plane.code().leaves[step.at]->ops->keep(leaves[step.at], q, kv));
        break;
      case Step::full:
      case Step::empty:
        stack.push_back(step.step == Step::full);
        break;
      case Step::op_not:
        stack.back() = !stack.back();
        break;
      case Step::op_and: {
        const bool last = pop();
        stack.back() = stack.back() && last;
        break;
      }
      case Step::op_or: {
        const bool last = pop();
        stack.back() = stack.back() || last;
        break;
      }
      default:
        break;
    }
  }
  return stack.back();
}

class PlanPrepare : public testing::TestWithParam<emulation::Schedule> {};
INSTANTIATE_TEST_SUITE_P(Emulation, PlanPrepare,
                         testing::Values(emulation::Schedule::early, emulation::Schedule::late));

// Every rectangle of 64 x 64, and every pair.
void compare(const Mask& mask, int64_t s_q, int64_t s_kv, emulation::Schedule schedule) {
  const std::vector<Sequence> sequences{{0, 0, s_q, 0, s_kv}, {1, 0, s_q, 0, s_kv}};
  const BoundMask host = anymask::bind(mask, sequences, 2, 1);
  const BoundMask there = anymask::bind(on_device(mask), sequences, 2, 1, device);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t head = 0; head < 2; ++head) {
      const PlaneMask& a = host.planes[static_cast<size_t>(host.plane(b, head))];
      const PlaneMask& d = there.planes[static_cast<size_t>(there.plane(b, head))];
      const Made made = make(d, schedule);
      for (int64_t q = 0; q < s_q; ++q) {
        for (int64_t kv = 0; kv < s_kv; ++kv)
          ASSERT_EQ(keep(d, made.leaves, q, kv), a.keep(q, kv)) << b << ' ' << head << ' ' << q << ' ' << kv;
      }
      for (size_t i = 0; i < made.leaves.size(); ++i) {
        const BoundLeaf& leaf = *d.code().leaves[i];
        for (int64_t q = 0; q < s_q; q += 64) {
          for (int64_t kv = 0; kv < s_kv; kv += 64) {
            const Rect r{q, std::min(q + 64, s_q), kv, std::min(kv + 64, s_kv)};
            bool some = false, all = true;
            for (int64_t row = r.q_begin; row < r.q_end; ++row) {
              for (int64_t key = r.kv_begin; key < r.kv_end; ++key) {
                const bool kept = leaf.ops->keep(made.leaves[i], row, key);
                some |= kept;
                all &= kept;
              }
            }
            const Kept said = leaf.ops->classify(made.leaves[i], r);
            if (said == Kept::partial) continue;
            ASSERT_EQ(said == Kept::full, some);
            ASSERT_EQ(some, all);
          }
        }
      }
    }
  }
}

TEST_P(PlanPrepare, EveryKind) {
  const int64_t lengths[][2] = {{1, 1}, {70, 130}, {130, 70}, {200, 200}, {1, 300}, {5, 2500}};
  for (const MaskKind& kind : mask_kinds()) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      std::mt19937_64 rng(seed);
      const auto [s_q, s_kv] = lengths[seed % std::size(lengths)];
      const Mask mask = kind.random(rng, {s_q, s_kv, 2, 2, 1});
      // A neighborhood's arrays decide what the host prepares; topk's rows are selected first (topk_select_test.cc).
      const auto elsewhere = [](const Instruction& i) { return i.op == Op::neighborhood || i.op == Op::topk; };
      if (std::ranges::any_of(mask.program().code, elsewhere)) continue;
      compare(mask, s_q, s_kv, GetParam());
      if (HasFailure()) FAIL() << kind.name << ", seed " << seed << ", " << s_q << " x " << s_kv << ": " << mask.str();
    }
  }
}

TensorView view_of(std::vector<int64_t>& values) {
  TensorView view;
  view.data = values.data();
  view.dtype = DType::i64;
  view.rank = 1;
  view.shape[0] = static_cast<int64_t>(values.size());
  view.stride[0] = 1;
  return view;
}

// Trees as the host numbers them, of several stretches of the block, bushy and deep; jumps go up, and reach the root.
TEST_P(PlanPrepare, TreesAreTheHosts) {
  std::mt19937_64 rng(3);
  for (int round = 0; round < 13; ++round) {
    const int form = round % 4;
    const int64_t lengths[] = {2500, 128, 75, 1}, n = lengths[round / 4];
    std::vector<int64_t> parents;
    for (int64_t i = 0; i < n; ++i) {
      const auto below = static_cast<int64_t>(rng() % static_cast<uint64_t>(i + 1));
      parents.push_back(form == 0   ? i - 1
                        : form == 1 ? below - 1
                        : form == 2 ? (rng() % 50 == 0 ? below - 1 : i - 1)
                                    : (i - 1) / 3 - (i == 0));
    }
    const Mask mask = Mask::parse("tree(@p)", std::vector{Array::borrow(view_of(parents), "p")});
    const std::vector<Sequence> sequences{{0, 0, n, 0, n}};
    const BoundMask host = anymask::bind(mask, sequences, 1, 1);
    const BoundMask there = anymask::bind(on_device(mask), sequences, 1, 1, device);
    if (n == 1) continue;  // keeps everything: no leaf is left
    const Made made = make(there.planes[0], GetParam());
    const auto* expected = static_cast<const TreeNode*>(host.planes[0].code().leaves[0]->args.data[0]);
    const auto* nodes = static_cast<const TreeNode*>(made.leaves[0].data[0]);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(nodes[i].parent, expected[i].parent);
      ASSERT_EQ(nodes[i].chain, expected[i].chain);
      ASSERT_EQ(nodes[i].enter, expected[i].enter) << i;
      ASSERT_EQ(nodes[i].leave, expected[i].leave);
      const int32_t jump = nodes[i].jump;
      ASSERT_LT(jump, i);
      ASSERT_TRUE(jump < 0 || (nodes[jump].enter < nodes[i].enter && nodes[i].enter < nodes[jump].leave));
    }
    const auto* bounds = static_cast<const TreeBounds*>(made.leaves[0].data[1]);
    const auto* right = static_cast<const TreeBounds*>(host.planes[0].code().leaves[0]->args.data[1]);
    for (int64_t i = 1; i < 2 * made.leaves[0].ints[2]; ++i)
      ASSERT_EQ(std::memcmp(&bounds[i], &right[i], sizeof(TreeBounds)), 0);
  }
}

// Contents that a check would have refused become such that it would have passed.
TEST_P(PlanPrepare, WrongContentsStayInside) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 6; ++round) {
    std::vector<int64_t> wild(static_cast<size_t>(1 + rng() % 40));
    for (int64_t& value : wild) value = static_cast<int64_t>(rng()) >> (rng() % 64);
    const std::vector<Array> arrays{Array::borrow(view_of(wild), "w")};
    const int64_t s_q = 100, s_kv = 300, count = static_cast<int64_t>(wild.size());
    const std::vector<Sequence> sequences{{0, 0, s_q, 0, s_kv}};
    for (const char* text : {"documents(@w)", "documents(@w, @w)", "shared_prefix(7, @w)", "tree(@w)"}) {
      const BoundMask bound = anymask::bind(on_device(Mask::parse(text, arrays)), sequences, 1, 1, device);
      const Made made = make(bound.planes[0], GetParam());
      const LeafArgs& leaf = made.leaves[0];
      if (leaf.op == Op::tree) {
        const auto* nodes = static_cast<const TreeNode*>(leaf.data[0]);
        for (int64_t i = 0; i < count; ++i) ASSERT_TRUE(nodes[i].parent >= -1 && nodes[i].parent < i);
        continue;
      }
      for (int slot = 0; slot < (leaf.op == Op::documents ? 2 : 1); ++slot) {
        const auto* offsets = static_cast<const int64_t*>(leaf.data[slot]);
        const int64_t last = leaf.op == Op::documents ? count - 1 : count;
        const int64_t end = slot == 0 && std::strchr(text, ',') != nullptr && leaf.op == Op::documents ? s_q : s_kv;
        ASSERT_EQ(offsets[0], last == 0 ? end : leaf.op == Op::documents ? 0 : 7);
        ASSERT_EQ(offsets[last], end);
        for (int64_t i = 1; i <= last; ++i) ASSERT_LE(offsets[i - 1], offsets[i]);
      }
    }
  }
}

}  // namespace
}  // namespace anymask
