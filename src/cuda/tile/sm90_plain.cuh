// A consumer warpgroup without overlap of its own: S, softmax and P V of a tile in one turn. Three of them cover each
// other, in 160 registers a thread: S is kept beside P and O until the softmax knows that its reference will do.
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

  template <bool kMasked>
  __device__ __forceinline__ void tile(const Turn& turn, Turn& next) {
    float s[S::kN / 2];
    Base::issue_scores(s);
    ptx::wgmma_wait<0>();
    ptx::wgmma_settle(s);
    uint32_t keep[2];
    if constexpr (kMasked) Base::keep_words(turn.kind, keep);
    Base::release_k(turn);
    uint32_t p[S::kN / 4];
    Base::rows.template update<kMasked>(s, keep, Base::scale_log2(), turn.first(), p,
                                        [&](const float(&alpha)[2]) { Base::rescale_output(alpha); });
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
        Base::release_k(turn);
        Base::skip_value();
        next = Base::arrive(after());
      }
      if (turn.end()) {
        float inverse[2];
        Base::finish(turn.slot(), inverse);
        Base::write(turn.slot(), inverse);
        if (turn.has_q()) Base::q_ring.advance();
      }
      Base::ring.advance();
    }
  }
};

}  // namespace anymask::sm90
