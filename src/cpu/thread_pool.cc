#include "cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define ANYMASK_HAS_FORK 1
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace anymask {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto spin_time = std::chrono::microseconds(200);
constexpr int spins_before_sleep = 1000;  // 15-40 us

// One call of run_on_threads, on the caller's stack, in the pool's list while it is open. All fields but the function
// are guarded by the pool's mutex; nobody touches a job after the decrement that empties it.
struct Job {
  JobFunction function = nullptr;
  void* context = nullptr;
  int wanted = 0;              // workers that may still come
  int next = 1;                // number of the next to come
  std::atomic<int> active{0};  // workers inside; written under the mutex, also watched without it
  std::exception_ptr error;
  Job* after = nullptr;
};

class Pool {
 public:
  void run(Job& job) {
    const int wanted = job.wanted;
    {
      const std::lock_guard lock(mutex_);
      grow(wanted);
      job.after = first_;
      first_ = &job;
      epoch_.fetch_add(1, std::memory_order_release);
    }
    if (parked_.load(std::memory_order_seq_cst) > 0) {
      if (wanted == 1) {
        work_.notify_one();
      } else {
        work_.notify_all();
      }
    }
    std::exception_ptr own;
    try {
      job.function(job.context, 0);
    } catch (...) {
      own = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    for (Job** at = &first_; *at != nullptr; at = &(*at)->after) {
      if (*at == &job) {
        *at = job.after;
        break;
      }
    }
    // Those inside are running their last piece: they are awaited, sleepers are not. Usually that is a matter of
    // microseconds, less than going to sleep takes.
    if (job.active.load() > 0) {
      lock.unlock();
      for (int i = 0; i < spins_before_sleep && job.active.load(std::memory_order_acquire) > 0; ++i) spin_pause();
      lock.lock();
      done_.wait(lock, [&] { return job.active.load() == 0; });
    }
    const std::exception_ptr error = own ? own : job.error;
    lock.unlock();
    if (error) std::rethrow_exception(error);
  }

 private:
  // Under the mutex. Fewer workers than wished for are not an error: the caller does the work.
  void grow(int workers) {
    while (workers_ < workers) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {
        return;
      }
      ++workers_;
    }
  }

  Job* open_job() {
    for (Job* job = first_; job != nullptr; job = job->after) {
      if (job->wanted > 0) return job;
    }
    return nullptr;
  }

  [[noreturn]] void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (Job* job = open_job()) {
        --job->wanted;
        const int number = job->next++;
        ++job->active;
        lock.unlock();
        std::exception_ptr error;
        try {
          job->function(job->context, number);
        } catch (...) {
          error = std::current_exception();
        }
        lock.lock();
        if (error && !job->error) job->error = error;
        if (--job->active == 0) done_.notify_all();
        continue;
      }
      const uint64_t seen = epoch_.load(std::memory_order_relaxed);
      lock.unlock();
      const auto until = Clock::now() + spin_time;
      bool fresh = false;
      do {
        for (int i = 0; i < 64 && !fresh; ++i) {
          fresh = epoch_.load(std::memory_order_acquire) != seen;
          spin_pause();
        }
      } while (!fresh && Clock::now() < until);
      lock.lock();
      if (!fresh) {
        parked_.fetch_add(1, std::memory_order_seq_cst);
        work_.wait(lock, [&] { return epoch_.load(std::memory_order_relaxed) != seen; });
        parked_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::atomic<uint64_t> epoch_{0};  // grows with every job: what spinning workers watch
  std::atomic<int> parked_{0};
  int workers_ = 0;
  Job* first_ = nullptr;
};

// Never destroyed: workers may outlive static destructors.
std::atomic<Pool*> the_pool{nullptr};

Pool& pool() {
  static std::once_flag once;
  std::call_once(once, [] {
    the_pool.store(new Pool);
#if defined(ANYMASK_HAS_FORK)
    // The child has none of the workers: it leaves the old pool behind, whatever state it was in.
    pthread_atfork(nullptr, nullptr, [] { the_pool.store(new Pool); });
#endif
  });
  return *the_pool.load();
}

}  // namespace

void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#else
  std::this_thread::yield();
#endif
}

int available_threads() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int resolve_threads(int requested) { return requested > 0 ? std::min(requested, 4096) : available_threads(); }

Workers pool_workers(int requested) { return {resolve_threads(requested), run_on_threads}; }

void run_on_threads(int threads, JobFunction function, void* context) {
  if (threads <= 1) {
    function(context, 0);
    return;
  }
  Job job;
  job.function = function;
  job.context = context;
  job.wanted = threads - 1;
  pool().run(job);
}

}  // namespace anymask
