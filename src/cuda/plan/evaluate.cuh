// A bound plane evaluated by one thread: the walk over postfix steps of mask/plane_mask.cc, with every leaf's own
// functions. No kind is known here by name: the switches come from the list of kinds.
#pragma once

#include "cuda/plan/plan_data.h"
#include "mask/kinds/all.h"

namespace anymask::plan_build {

inline constexpr int evaluate_threads = 256;  // of a block that asks for words

template <class Kind>
__device__ Kept classify_as(const LeafArgs& leaf, const Rect& r) {
  if constexpr (requires { &Kind::sketch; }) {
    return Kind::sketch(leaf, r);
  } else {
    return Kind::classify(leaf, r);
  }
}

template <class Kind>
__device__ Interval interval_as(const LeafArgs& leaf, int64_t q) {
  if constexpr (requires { &Kind::interval; }) {
    return Kind::interval(leaf, q);
  } else {
    return {0, 0};  // no band holds such a leaf
  }
}

// What one lane evaluates at once: two rows of two words, or four rows of one. Rows are 32 apart.
struct LaneWords {
  uint64_t word[4];
};

// A 32 x 32 block of bits turned over: bit j of lane i moves to bit i of lane j. One warp.
__device__ inline uint32_t turn(uint32_t x) {
  uint32_t low = 0x0000ffffu;
  for (int half = 16; half > 0; half /= 2, low ^= low << half) {
    const uint32_t other = __shfl_xor_sync(~0u, x, half);
    x = threadIdx.x & half ? (x & ~low) | (other & ~low) >> half : (x & low) | (other & low) << half;
  }
  return x;
}

// Where a kind knows columns: a key a lane, then turned into rows.
template <class Kind, int words>
__device__ LaneWords words_by_columns(const LeafArgs& leaf, int64_t q, int64_t kv) {
  const int lane = threadIdx.x % 32;
  LaneWords out{};
  for (int key = 0; key < 2 * words; ++key) {  // 32 keys at a time
    const int64_t column = min_of(kv + 32 * key + lane, leaf.s_kv - 1);
    for (int pair = 0; pair < 2 / words; ++pair) {  // 64 rows at a time
      const uint64_t rows = Kind::col_word(leaf, column, q - lane + 64 * pair);
      for (int half = 0; half < 2; ++half) {
        const uint64_t keys = turn(static_cast<uint32_t>(rows >> (32 * half)));
        out.word[(2 * pair + half) * words + key / 2] |= keys << (32 * (key % 2));
      }
    }
  }
  return out;
}

// Where a kind is bytes in rows of 16-byte multiples: the warp loads whole sectors, 16 keys a lane, packs them and
// hands each lane its rows through shared memory. A lane at its own rows alone reads 8 bytes of 32 lines at a time.
template <class Kind, int words>
__device__ LaneWords words_by_bytes(const LeafArgs& leaf, int64_t q, int64_t kv) {
  constexpr int lanes_a_row = 4 * words, rows_at_once = 32 / lanes_a_row, rows = 128 / words;
  __shared__ uint16_t packed[evaluate_threads / 32][rows][lanes_a_row];
  auto& mine = packed[threadIdx.x / 32];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = q - lane, key = kv + 16 * (lane % lanes_a_row);
  const int64_t inside = min_of(16, leaf.s_kv - key);
#pragma unroll 4
  for (int step = 0; step < rows; step += rows_at_once) {
    const int row = step + lane / lanes_a_row;
    const uint8_t* bytes = Kind::row(leaf, min_of(first + row, leaf.s_q - 1)) + key;
    uint64_t half[2] = {};
    if (inside == 16) {
      const uint4 loaded = *reinterpret_cast<const uint4*>(bytes);
      half[0] = uint64_t{loaded.y} << 32 | loaded.x;
      half[1] = uint64_t{loaded.w} << 32 | loaded.z;
    } else {
      for (int64_t i = 0; i < inside; ++i) half[i / 8] |= uint64_t{bytes[i]} << (8 * (i % 8));
    }
    mine[row][lane % lanes_a_row] = static_cast<uint16_t>(Kind::pack_bytes(half[0]) | Kind::pack_bytes(half[1]) << 8);
  }
  __syncwarp();
  LaneWords out;
  for (int i = 0; i < 4; ++i) {
    const uint16_t* from = &mine[lane + 32 * (i / words)][4 * (i % words)];
    out.word[i] = uint64_t{from[3]} << 48 | uint64_t{from[2]} << 32 | uint64_t{from[1]} << 16 | from[0];
  }
  __syncwarp();  // before the next ones are written
  return out;
}

// A row's words where the kind shares work between them, then an interval, then one at a time.
template <class Kind, int words>
__device__ void words_as(const LeafArgs& leaf, int64_t q, int64_t kv, uint64_t* bits) {
  if constexpr (requires { &Kind::row_words; }) {
    Kind::row_words(leaf, q, kv, words, bits);
  } else if constexpr (requires { &Kind::interval; }) {
    const Interval kept = Kind::interval(leaf, q);
    for (int w = 0; w < words; ++w) bits[w] = interval_word(kept, kv + 64 * w);
  } else {
    for (int w = 0; w < words; ++w) bits[w] = kv + 64 * w < leaf.s_kv ? Kind::word(leaf, q, kv + 64 * w) : 0;
  }
}

// Rows beyond the plane repeat its last one.
template <class Kind, int words>
__device__ LaneWords words_of_kind(const LeafArgs& leaf, int64_t q, int64_t kv) {
  if constexpr (requires { &Kind::col_word; }) {
    return words_by_columns<Kind, words>(leaf, q, kv);
  } else {
    if constexpr (requires { &Kind::pack_bytes; }) {
      const bool whole =
          leaf.stride[0][1] == 1 && leaf.stride[0][0] % 16 == 0 && reinterpret_cast<uintptr_t>(leaf.data[0]) % 16 == 0;
      if (whole) return words_by_bytes<Kind, words>(leaf, q, kv);
    }
    LaneWords out;
    for (int i = 0; i < 4; i += words) {
      words_as<Kind, words>(leaf, min_of(q + 32 * (i / words), leaf.s_q - 1), kv, out.word + i);
    }
    return out;
  }
}

__device__ __noinline__ Kept classify_leaf(const LeafArgs& leaf, const Rect& r) {
  switch (leaf.op) {
#define ANYMASK_CASE(name, Kind) \
  case Op::name:                 \
    return classify_as<Kind>(leaf, r);
    ANYMASK_KINDS(ANYMASK_CASE)
#undef ANYMASK_CASE
    default:
      return Kept::partial;
  }
}

__device__ __noinline__ Interval leaf_interval(const LeafArgs& leaf, int64_t q) {
  switch (leaf.op) {
#define ANYMASK_CASE(name, Kind) \
  case Op::name:                 \
    return interval_as<Kind>(leaf, q);
    ANYMASK_KINDS(ANYMASK_CASE)
#undef ANYMASK_CASE
    default:
      return {0, 0};
  }
}

template <int words>
__device__ __noinline__ LaneWords leaf_words(const LeafArgs& leaf, int64_t q, int64_t kv) {
  switch (leaf.op) {
#define ANYMASK_CASE(name, Kind) \
  case Op::name:                 \
    return words_of_kind<Kind, words>(leaf, q, kv);
    ANYMASK_KINDS(ANYMASK_CASE)
#undef ANYMASK_CASE
    default:
      __trap();
  }
}

class Plane {
 public:
  __device__ Plane(const PlanBuild& build, const BuildPlane& plane)
      : s_q(plane.s_q),
        s_kv(plane.s_kv),
        band(plane.band != 0),
        steps_(build.steps + plane.first_step),
        leaves_(build.leaves),
        num_steps_(plane.num_steps) {}

  const int64_t s_q, s_kv;
  const bool band;

  // Of a row of a band. The last value stands in registers, those below it in the stack.
  __device__ __noinline__ Interval interval(int64_t q) const {
    Interval stack[max_device_stack - 1], last{};
    int below = -1;
    const auto push = [&](Interval value) {
      if (below >= 0) stack[below] = last;
      ++below;
      last = value;
    };
    for (int i = 0; i < num_steps_; ++i) {
      const PlaneStep step = steps_[i];
      switch (step.step) {
        case Step::leaf:
          push(leaf_interval(leaves_[step.at], q));
          break;
        case Step::full:
          push({0, s_kv});
          break;
        case Step::empty:
          push({0, 0});
          break;
        case Step::op_not:
          last = band_not(last, step.from_begin, s_kv);
          break;
        case Step::op_and:
          last = band_and(stack[--below], last);
          break;
        case Step::op_or:
          last = band_or(stack[--below], last);
          break;
        default:
          break;
      }
    }
    return last;
  }

  __device__ __noinline__ Kept classify(const Rect& r) const {
    if (band) {
      const Interval first = interval(r.q_begin), last = interval(r.q_end - 1);
      if (last.end <= r.kv_begin || first.begin >= r.kv_end) return Kept::empty;
      return last.begin <= r.kv_begin && r.kv_end <= first.end ? Kept::full : Kept::partial;
    }
    uint64_t stack = 0;  // two bits a level, the last value lowest
    const auto value = [&stack](int level) { return static_cast<Kept>(stack >> (2 * level) & 3); };
    const auto push = [&stack](Kept kept) { stack = stack << 2 | static_cast<uint64_t>(kept); };
    for (int i = 0; i < num_steps_; ++i) {
      const PlaneStep step = steps_[i];
      switch (step.step) {
        case Step::leaf:
          push(classify_leaf(leaves_[step.at], r));
          break;
        case Step::full:
          push(Kept::full);
          break;
        case Step::empty:
          push(Kept::empty);
          break;
        case Step::op_not: {
          const Kept kept = kept_not(value(0));
          stack >>= 2;
          push(kept);
          break;
        }
        case Step::op_and: {
          const Kept kept = kept_and(value(1), value(0));
          stack >>= 4;
          push(kept);
          break;
        }
        case Step::op_or: {
          const Kept kept = kept_or(value(1), value(0));
          stack >>= 4;
          push(kept);
          break;
        }
        case Step::skip_if_empty:
          if (value(0) == Kept::empty) i = static_cast<int>(step.at) - 1;
          break;
        case Step::skip_if_full:
          if (value(0) == Kept::full) i = static_cast<int>(step.at) - 1;
          break;
      }
    }
    return value(0);
  }

  // Words of the keys from kv, a multiple of 64, in rows q, q + 32, ...; 0 outside the plane. Called by whole warps.
  template <int words>
  __device__ __noinline__ LaneWords row_words(int64_t q, int64_t kv) const {
    LaneWords stack[max_device_stack - 1], last{};
    int below = -1;
    const auto push = [&](const LaneWords& value) {
      if (below >= 0) stack[below] = last;
      ++below;
      last = value;
    };
    const auto each = [&](auto&& of) {
      for (int w = 0; w < 4; ++w) last.word[w] = of(w);
    };
    const auto all = [&](uint64_t value) {
      return __all_sync(
          ~0u, last.word[0] == value && last.word[1] == value && last.word[2] == value && last.word[3] == value);
    };
    for (int i = 0; i < num_steps_; ++i) {
      const PlaneStep step = steps_[i];
      switch (step.step) {
        case Step::leaf:
          push(leaf_words<words>(leaves_[step.at], q, kv));
          break;
        case Step::full:
        case Step::empty: {
          const uint64_t value = step.step == Step::full ? ~uint64_t{0} : 0;
          push({value, value, value, value});
          break;
        }
        case Step::op_not:
          each([&](int w) { return ~last.word[w]; });
          break;
        case Step::op_and:
          --below;
          each([&](int w) { return last.word[w] & stack[below].word[w]; });
          break;
        case Step::op_or:
          --below;
          each([&](int w) { return last.word[w] | stack[below].word[w]; });
          break;
        case Step::skip_if_empty:
          if (all(0)) i = static_cast<int>(step.at) - 1;
          break;
        case Step::skip_if_full:
          if (all(~uint64_t{0})) i = static_cast<int>(step.at) - 1;
          break;
      }
    }
    each([&](int w) {
      const bool inside = q + 32 * (w / words) < s_q;
      return inside ? last.word[w] & bit_range(0, s_kv - kv - 64 * (w % words)) : 0;
    });
    return last;
  }

 private:
  const PlaneStep* steps_;
  const LeafArgs* leaves_;
  const int num_steps_;
};

}  // namespace anymask::plan_build
