// Everything a bound mask answers, compared with the oracle pair by pair.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "mask/bound_mask.h"
#include "mask/registry.h"
#include "oracle.h"

namespace anymask {

inline std::vector<Sequence> sequences_of(const ExampleShape& shape) {
  std::vector<Sequence> sequences;
  for (int64_t b = 0; b < shape.batch; ++b)
    sequences.push_back({.batch = b, .q_begin = 0, .s_q = shape.s_q, .kv_begin = 0, .s_kv = shape.s_kv});
  return sequences;
}

struct Tightness {
  int64_t rectangles = 0, loose = 0;  // classified PARTIAL though all alike
};

// keep, word, words, interval and classify of one plane.
inline void check_plane(const PlaneMask& plane, const std::vector<std::vector<bool>>& kept, std::mt19937_64& rng,
                        Tightness& tightness, const std::string& text) {
  const int64_t s_q = plane.s_q, s_kv = plane.s_kv, width = s_kv / 64 + 2;
  for (int64_t q = 0; q < s_q; ++q) {
    for (int64_t kv = 0; kv < s_kv; ++kv)
      ASSERT_EQ(plane.keep(q, kv), kept[q][kv]) << text << " keep(" << q << ", " << kv << ")";
  }
  // Words from any row and word on, beyond the plane's edges too.
  for (int trial = 0; trial < 3; ++trial) {
    const auto q = static_cast<int64_t>(rng() % static_cast<uint64_t>(s_q + 2)),
               w = static_cast<int64_t>(rng() % static_cast<uint64_t>(width));
    const auto rows = trial == 0 ? s_q + 3 : static_cast<int64_t>(rng() % 9),
               words = trial == 0 ? width : static_cast<int64_t>(rng() % 4);
    const int64_t q_begin = trial == 0 ? 0 : q, w_begin = trial == 0 ? 0 : w;
    std::vector<uint64_t> bits(static_cast<size_t>(rows * words) + 1, 0xabcdabcdabcdabcd);
    plane.words(q_begin, rows, 64 * w_begin, words, bits.data());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < words; ++j) {
        uint64_t expected = 0;
        for (int64_t bit = 0; bit < 64; ++bit) {
          const int64_t kv = 64 * (w_begin + j) + bit;
          if (q_begin + i < s_q && kv < s_kv && kept[q_begin + i][kv]) expected |= uint64_t{1} << bit;
        }
        ASSERT_EQ(bits[i * words + j], expected)
            << text << " words, row " << q_begin + i << " key " << 64 * (w_begin + j);
        if (q_begin + i < s_q) {
          ASSERT_EQ(plane.word(q_begin + i, 64 * (w_begin + j)), expected) << text << " word";
        }
      }
    }
    ASSERT_EQ(bits.back(), 0xabcdabcdabcdabcd) << text << " writes beyond its words";
  }
  if (plane.is_band()) {
    Interval before{0, 0};
    for (int64_t q = 0; q < s_q; ++q) {
      const Interval i = plane.interval(q);
      ASSERT_LE(0, i.begin) << text;
      ASSERT_LE(i.begin, i.end) << text;
      ASSERT_LE(i.end, s_kv) << text;
      ASSERT_LE(before.begin, i.begin) << text << " begin falls at row " << q;
      ASSERT_LE(before.end, i.end) << text << " end falls at row " << q;
      before = i;
      for (int64_t kv = 0; kv < s_kv; ++kv)
        ASSERT_EQ(i.begin <= kv && kv < i.end, kept[q][kv]) << text << " interval(" << q << ")";
    }
  }
  if (s_q == 0 || s_kv == 0) return;
  for (int trial = 0; trial < 40; ++trial) {
    int64_t q[2], kv[2];
    for (int64_t& x : q) x = static_cast<int64_t>(rng() % static_cast<uint64_t>(s_q));
    for (int64_t& x : kv) x = static_cast<int64_t>(rng() % static_cast<uint64_t>(s_kv));
    if (trial % 3 == 1) q[1] = std::min(q[0] + 4, s_q - 1), kv[1] = std::min(kv[0] + 4, s_kv - 1);
    if (trial == 0) q[0] = 0, q[1] = s_q - 1, kv[0] = 0, kv[1] = s_kv - 1;
    const Rect r{std::min(q[0], q[1]), std::max(q[0], q[1]) + 1, std::min(kv[0], kv[1]), std::max(kv[0], kv[1]) + 1};
    bool some = false, all = true;
    for (int64_t i = r.q_begin; i < r.q_end; ++i) {
      for (int64_t j = r.kv_begin; j < r.kv_end; ++j) some |= kept[i][j], all &= kept[i][j];
    }
    const Kept found = plane.classify(r);
    const Kept exact = all ? Kept::full : some ? Kept::partial : Kept::empty;
    ++tightness.rectangles;
    if (found == Kept::partial) {
      tightness.loose += exact != Kept::partial;
    } else {
      ASSERT_EQ(static_cast<int>(found), static_cast<int>(exact))
          << text << " classify [" << r.q_begin << ", " << r.q_end << ") x [" << r.kv_begin << ", " << r.kv_end << ")";
    }
  }
}

inline void check_mask(const Mask& mask, const ExampleShape& shape, std::mt19937_64& rng, Tightness& tightness) {
  const std::string text = mask.str() + " at s_q " + std::to_string(shape.s_q) + ", s_kv " + std::to_string(shape.s_kv);
  const std::vector<Sequence> sequences = sequences_of(shape);
  const BoundMask bound = anymask::bind(mask, sequences, shape.h_q, shape.h_kv);
  ASSERT_EQ(bound.plane_of.size(), sequences.size() * static_cast<size_t>(bound.heads)) << text;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.h_q; ++h) {
      std::vector<std::vector<bool>> kept(static_cast<size_t>(shape.s_q),
                                          std::vector<bool>(static_cast<size_t>(shape.s_kv)));
      for (int64_t q = 0; q < shape.s_q; ++q) {
        for (int64_t kv = 0; kv < shape.s_kv; ++kv)
          kept[q][kv] = oracle::keep(mask, {shape.s_q, shape.s_kv, b, h, shape.h_q, shape.h_kv}, q, kv);
      }
      const PlaneMask& plane = bound.planes[bound.plane(b, h)];
      ASSERT_EQ(plane.s_q, shape.s_q);
      ASSERT_EQ(plane.s_kv, shape.s_kv);
      check_plane(plane, kept, rng, tightness, text);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

inline ExampleShape random_shape(std::mt19937_64& rng) {
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  const auto length = [&] {
    switch (pick(0, 5)) {
      case 0:
        return pick(0, 1);
      case 1:
        return pick(60, 70);
      case 2:
        return pick(120, 150);
      default:
        return pick(1, 40);
    }
  };
  const int64_t h_kv = pick(1, 2);
  ExampleShape shape{length(), length(), pick(1, 3), h_kv * pick(1, 2), h_kv};
  if (pick(0, 2) == 0) shape.s_q = shape.s_kv;
  return shape;
}

}  // namespace anymask
