// Threads that may help with work below the backends. Masks and plans know no thread pool: who calls them hands one
// down, and where nobody does the caller works alone. What they compute never depends on it, bit for bit.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/interrupt.h"

namespace anymask {

using JobFunction = void (*)(void* context, int participant);

struct Workers {
  int threads = 1;  // at most, the caller among them
  // Calls job(context, 0) here and job(context, i) on whoever else comes, i < threads, each once; returns when all
  // have.
  void (*run)(int threads, JobFunction job, void* context) = nullptr;

  // f(piece, participant) once for each piece in [0, pieces), claimed in ascending order; participants in [0, threads)
  // run side by side. The first exception ends it and is thrown here. The caller's interrupt is polled between pieces.
  template <class F>
  void each(int64_t pieces, F&& f) const {
    std::atomic<int64_t> next{0};
    auto job = [&](int participant) {
      try {
        for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
          poll_interrupt();
          f(i, participant);
        }
      } catch (...) {
        next.store(pieces, std::memory_order_relaxed);
        throw;
      }
    };
    const auto most = static_cast<int>(std::min<int64_t>(threads, pieces));
    if (most <= 1) return job(0);
    run(
        most, [](void* context, int participant) { (*static_cast<decltype(job)*>(context))(participant); }, &job);
  }
};

}  // namespace anymask
