// Stopping a call that computes on a CPU: the caller's function is asked now and then whether to stop.
//
// It is asked by the thread that made the call and by no other, between pieces of its work, at most every 50 ms: asking
// may cost a lock (Python's), and nobody notices 50 ms. Other threads of the call learn of the stop as they learn of
// any failure. The function may make calls of its own (a signal handler does). Since a thread keeps memory from call to
// call, those run on another thread, and ask nobody.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

namespace anymask {

using InterruptFunction = int32_t (*)(void* context);  // not 0: stop

// Between pieces of work, on whatever thread. Throws Error(Status::interrupted) where the caller says stop.
void poll_interrupt();

// Whether this thread is inside the function of a call in progress.
bool asking_interrupt();

// For its life, poll_interrupt on this thread asks `function`, or nobody where it is null.
class InterruptScope {
 public:
  InterruptScope(InterruptFunction function, void* context);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  friend void poll_interrupt();
  friend bool asking_interrupt();

  InterruptFunction function_;
  void* context_;
  bool asking_ = false;
  std::chrono::steady_clock::time_point next_ = {};
};

// Runs the body of a call that asks `function`.
template <class Body>
void interruptible(InterruptFunction function, void* context, Body&& body) {
  if (!asking_interrupt()) {
    const InterruptScope scope(function, context);
    std::forward<Body>(body)();
    return;
  }
  std::exception_ptr error;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

}  // namespace anymask
