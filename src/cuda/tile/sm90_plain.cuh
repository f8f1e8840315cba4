// A consumer warpgroup without overlap of its own: S, softmax and P V of a tile one after the other, in 160 registers a
// thread. Three of them cover each other, with S issued in turn.
//
// S does not fit beside P and O. So it is not kept until the softmax knows that its reference will do: where it will
// not, which is rare, all of the warpgroup computes S again.
//
// The next tile's facts are read under P V. At an item's end O is written from registers while the others compute; the
// next item's Q is on its way since the last S.
#pragma once

#include "cuda/tile/sm90_warpgroup.cuh"

namespace anymask::sm90 {

template <class S>
struct PlainConsumer : Warpgroup<S> {
  using Base = Warpgroup<S>;
  static_assert(!S::kModified, "no registers are left to change scores with");

  // S = Q K^T, masked.
  template <bool kMasked>
  __device__ __forceinline__ void scores(float (&s)[S::kN / 2], const Turn& turn, bool in_turn) {
    if (in_turn) Base::turns.take(Base::index);
    Base::issue_scores(s);
    ptx::wgmma_wait<0>();
    ptx::wgmma_settle(s);
    if (in_turn) Base::turns.pass(Base::index);
    if constexpr (kMasked) {
      uint32_t keep[2];
      Base::keep_words(turn, keep);
      Base::rows.mask(s, keep);
    }
  }

  // P = exp2(S scale - m), l += rowsum P.
  template <bool kMasked>
  __device__ __forceinline__ void weights(const Turn& turn, uint32_t (&p)[S::kN / 4]) {
    auto& softmax = Base::rows;
    float part[2] = {INFINITY, INFINITY};
    bool again = false;
    for (bool move = turn.first();; move = again = true) {
      float s[S::kN / 2];
      scores<kMasked>(s, turn, !again);
      if (move) softmax.move(s, Base::scale_log2(), part, [&](const float(&alpha)[2]) { Base::rescale_output(alpha); });
      softmax.exponentials(s, Base::scale_log2(), p, part);
      // All 128 threads go round together: products are the whole warpgroup's.
      if (move || !ptx::barrier_any(1 + S::kWarpgroups + Base::index, 128, softmax.must_move(part))) break;
    }
    Base::release_k(turn);
    softmax.sum[0] += part[0];
    softmax.sum[1] += part[1];
  }

  template <bool kMasked>
  __device__ __forceinline__ void tile(const Turn& turn, Turn& next) {
    uint32_t p[S::kN / 4];
    weights<kMasked>(turn, p);
    Base::issue_output(p, Base::ring);
    next = Base::arrive(after());
    Base::wait_output(Base::ring);
  }

  __device__ __forceinline__ Ring<S::kStages> after() const {
    Ring<S::kStages> at = Base::ring;
    at.advance();
    return at;
  }

  __device__ __forceinline__ void run() {
    Turn next = Base::arrive(Base::ring);
    while (!next.stop()) {
      const Turn turn = next;
      if (turn.first()) {
        Base::rows.start();
        Base::clear_output();
        if (turn.has_q()) ptx::mbarrier_wait(Base::smem.q_full[Base::q_ring.stage], Base::q_ring.phase);
      }
      if (turn.kind == Slice::full) {
        tile<false>(turn, next);
      } else if (turn.kind != Slice::empty) {
        tile<true>(turn, next);
      } else {
        Base::turns.take(Base::index);
        Base::turns.pass(Base::index);
        Base::release_k(turn);
        Base::skip_value();
        next = Base::arrive(after());
      }
      if (turn.end()) {
        float inverse[2];
        Base::finish(turn.slot(), inverse);
        Base::write(turn.slot(), inverse, next.stop());
        if (turn.has_q()) Base::q_ring.advance();
      }
      Base::ring.advance();
    }
    Base::turns.close(Base::index);
  }
};

}  // namespace anymask::sm90
