// A small pool of threads for calls of tens of microseconds and more.
//
// The caller works too, and nobody ever waits for a worker that has not woken: workers that come late find the job
// closed. So a job must be written as "claim the next piece until none is left", never as "thread i does part i". After
// a job a worker spins for about 200 us (the next call often comes at once), then parks: waking a parked one costs
// 16-31 us. Any number of user threads may run jobs at a time. After fork() the child starts with a pool of its own.
#pragma once

#include <memory>
#include <type_traits>

#include "core/workers.h"

namespace anymask {

// Cores this process may use (its affinity), at least 1.
int available_threads();

// `requested` as attention calls state it: 0 means all available.
int resolve_threads(int requested);

// Calls job(context, i) on the caller (i = 0) and on up to threads - 1 workers (i = 1, 2, ..., each once, in the order
// they come). Returns when the caller's call and those of all workers that came have returned. The first exception
// thrown is rethrown here.
void run_on_threads(int threads, JobFunction job, void* context);

// run_on_threads(n, [&](int participant) { ... })
template <class F>
void run_on_threads(int threads, F&& f) {
  using Plain = std::remove_reference_t<F>;
  run_on_threads(
      threads, [](void* context, int participant) { (*static_cast<Plain*>(context))(participant); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// The pool, for masks and plans to use: as many threads as an attention call with this request has.
Workers pool_workers(int requested);

// One pause of a spin loop.
void spin_pause();

}  // namespace anymask
