// A consumer warpgroup that issues S of a tile and P V of the tile before it together. Two warpgroups take the softmax
// of S while P V still runs. Three do it while the others multiply: each waits for its turn, and for both of its
// products.
//
// Items follow each other in the same stream: the first S of an item runs with the last P V of the item before, whose
// O is written out after it.
#pragma once

#include "cuda/tile/sm90_warpgroup.cuh"

namespace anymask::sm90 {

template <class S>
struct OverlappedConsumer : Warpgroup<S> {
  using Base = Warpgroup<S>;
  using T = typename S::T;
  uint32_t p[S::kN / 4];
  bool pending = false;  // P of the tile before waits for its product with V
  uint32_t minus_zeros = 0x80008000u;
  AlibiRows alibi{};

  // Softcap, bias and ALiBi.
  __device__ __forceinline__ void modify(float (&s)[S::kN / 2], const Turn& turn, const TileInfo& tile) {
    const AttentionParams& call = Base::params;
    if (call.softcap > 0) cap_scores<S::kN>(s, call.softmax_scale, call.softcap);
    if (call.bias.data != nullptr) {
      read_bias<S>(s, call, Base::smem.item[turn.slot()], tile, Base::index * 64 + Base::row(), Base::lane() % 4);
    } else if (natural_scores(call)) {
#pragma unroll
      for (float& x : s) x *= call.softmax_scale;
    }
    if (call.alibi.data != nullptr) alibi.add<S::kN>(s, tile.key_begin, Base::scale_log2(), Base::rows.offset);
  }

  // S = Q K^T, with it O += P V of the tile before (kPending), and P = exp2(S scale - m). True: O times alpha is due.
  template <bool kMasked, bool kPending>
  __device__ __forceinline__ bool scores(const Turn& turn, float (&alpha)[2]) {
    constexpr bool kUnder = kPending && !Base::turns.kTaken;  // the softmax runs under P V
    const Ring<S::kStages> last = Base::before();
    float s[S::kN / 2];
    Base::turns.take(Base::index);
    Base::issue_scores(s);
    if constexpr (kPending) Base::issue_output(p, last);
    ptx::wgmma_wait<kUnder ? 1 : 0>();
    ptx::wgmma_settle(s);
    Base::turns.pass(Base::index);
    if constexpr (kPending && !kUnder) Base::wait_output(last);
    uint32_t keep[2];
    TileInfo facts{};
    if constexpr (kMasked) {
      if constexpr (S::kModified) facts = Base::smem.tile[Base::ring.stage];
      Base::keep_words(turn, keep);
    }
    Base::release_k(turn);
    if constexpr (S::kModified) {
      modify(s, turn, facts);
      if (turn.kind != Slice::full) Base::rows.mask(s, keep);
    } else if constexpr (kMasked) {
      Base::rows.mask(s, keep);
    }
    bool moved = false;
    const auto rescale = [&](const float(&by)[2]) {
      moved = true;
      alpha[0] = by[0];
      alpha[1] = by[1];
    };
    if constexpr (kUnder) {
      uint32_t next[S::kN / 4];
      Base::rows.update(s, Base::scale_log2(), turn.first(), next, rescale);
#pragma unroll
      for (uint32_t& x : next) asm volatile("" : "+r"(x));  // all of the softmax before the wait, not half of it behind
      Base::wait_output(last);
#pragma unroll
      for (int i = 0; i < S::kN / 4; ++i) p[i] = ptx::copy_pair<T>(next[i], minus_zeros);
    } else {
      Base::rows.update(s, Base::scale_log2(), turn.first(), p, rescale);
    }
    return moved;
  }

  __device__ __forceinline__ void run() {
    asm volatile("" : "+r"(minus_zeros));  // not a constant: the addition stays
    int open = -1;                         // the slot of the item whose O is here and not yet written
    float inverse[2] = {0, 0};
    for (;;) {
      const Turn turn = Base::arrive(Base::ring);
      if (turn.first()) {
        Base::rows.start();
        if (S::kModified && !turn.stop()) {
          alibi.start(Base::params, Base::smem.item[turn.slot()], Base::index * 64 + Base::row(), Base::lane() % 4);
        }
        if (turn.has_q()) ptx::mbarrier_wait(Base::smem.q_full[Base::q_ring.stage], Base::q_ring.phase);
      }
      float alpha[2] = {1, 1};
      bool moved = false;
      if (turn.kind == Slice::empty) {
        if (!turn.stop()) {
          Base::turns.take(Base::index);
          Base::turns.pass(Base::index);
        }
        Base::release_k(turn);
        if (pending) {
          Base::issue_output(p, Base::before());
          Base::wait_output(Base::before());
        }
        if (!turn.stop()) Base::skip_value();
      } else if (!S::kModified && turn.kind == Slice::full && pending) {
        moved = scores<false, true>(turn, alpha);
      } else if (pending) {
        moved = scores<true, true>(turn, alpha);
      } else {
        moved = scores<true, false>(turn, alpha);
      }

      if (turn.first()) {
        if (open >= 0) Base::write(open, inverse, turn.stop());
        open = turn.slot();
        Base::clear_output();
      } else if (moved) {
        Base::rescale_output(alpha);
      }
      if (turn.stop()) break;
      if (turn.end()) {
        Base::finish(open, inverse);
        if (turn.has_q()) Base::q_ring.advance();
      }
      pending = turn.kind != Slice::empty;
      Base::ring.advance();
    }
    Base::turns.close(Base::index);
  }
};

}  // namespace anymask::sm90
