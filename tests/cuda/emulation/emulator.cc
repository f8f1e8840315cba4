#include "cuda/emulation/emulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cuda/emulation/device_keywords.h"

uint3 threadIdx, blockIdx;
dim3 gridDim, blockDim;

namespace anymask::emulation {
namespace {

constexpr size_t stack_bytes = 256 << 10;  // pages that nobody touches cost nothing
constexpr uint8_t poison = 0xff;           // not a number, in every float type

struct Group {
  std::vector<std::function<void()>> work;
};

struct Fiber {
  unsigned thread = 0;
  bool started = false, done = false;
  std::unique_ptr<char[]> stack;
  ucontext_t first{};  // where it begins
  jmp_buf place{};     // where it goes on
  // What it waits for: null, or a question that the scheduler asks.
  bool (*ready)(const void*) = nullptr;
  const void* question = nullptr;
  const char* waits_for = "";
  std::array<std::deque<Group>, 2> committed{};
  std::array<Group, 2> open{};
};

struct Warp {
  int arrived = 0;
  uint64_t turn = 0;
  const char* operation = "";
  void* operands[32] = {};
};
struct NamedBarrier {
  int arrived = 0;
  bool holds = false, held = false;  // the condition: so far, and in the phase that is done
  uint64_t turn = 0;
};
struct Mbarrier {
  int expected = 0, pending = 0;
  int64_t bytes = 0;  // announced and not yet here; below 0 where they come first
  uint32_t phase = 0;
};

struct Block {
  const Launch& launch;
  const std::function<void()>& kernel;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::map<int, NamedBarrier> named{};
  std::map<const void*, Mbarrier> mbarriers{};
  std::vector<std::function<void()>> copies{};  // in flight
  std::exception_ptr fault{};
  Fiber* running = nullptr;
  jmp_buf scheduler{};
};
Block* block = nullptr;  // the one that runs

[[noreturn]] void fail(const std::string& what) {
  throw Fault(cat("block ", blockIdx.x, ", thread ", threadIdx.x, ": ", what));
}

void check_queues() {
  const Fiber& self = *block->running;
  for (const auto& groups : self.committed) {
    for (const Group& group : groups)
      if (!group.work.empty()) fail("it ends with asynchronous work that it did not wait for");
  }
  for (const Group& group : self.open)
    if (!group.work.empty()) fail("it ends with asynchronous work that it did not commit");
}

// setjmp and longjmp save no signal mask; swapcontext would make two system calls a switch.
__attribute__((noinline)) void leave() {
  Fiber& self = *block->running;
  if (_setjmp(self.place) == 0) _longjmp(block->scheduler, 1);
}

void body() {
  try {
    block->kernel();
    check_queues();
  } catch (...) {
    block->fault = std::current_exception();
  }
  block->running->done = true;
  leave();
}

__attribute__((noinline)) void enter(Fiber& fiber) {
  block->running = &fiber;
  threadIdx = {fiber.thread, 0, 0};
  if (_setjmp(block->scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.place, 1);
  fiber.started = true;
  getcontext(&fiber.first);
  fiber.first.uc_stack.ss_sp = fiber.stack.get();
  fiber.first.uc_stack.ss_size = stack_bytes;
  fiber.first.uc_link = nullptr;
  makecontext(&fiber.first, body, 0);
  setcontext(&fiber.first);
}

// `ready` lives on the waiting thread's stack.
template <class Ready>
void wait_until(const char* what, const Ready& ready) {
  if (ready()) return;
  Fiber& self = *block->running;
  self.ready = [](const void* question) { return (*static_cast<const Ready*>(question))(); };
  self.question = &ready;
  self.waits_for = what;
  leave();
  self.ready = nullptr;
}

[[noreturn]] void report_deadlock() {
  std::map<std::string, int> waiting;
  for (const Fiber& fiber : block->fibers) {
    if (!fiber.done) ++waiting[fiber.waits_for];
  }
  std::string list;
  for (const auto& [what, count] : waiting) list += cat(list.empty() ? "" : ", ", count, " for ", what);
  throw Fault(cat("deadlock in block ", blockIdx.x, ": threads wait, ", list));
}

void check_end() {
  if (!block->copies.empty()) throw Fault("a block ends while copies to its shared memory are in flight");
  for (const auto& [id, barrier] : block->named) {
    if (barrier.arrived != 0)
      throw Fault(cat("named barrier ", id, " is left with ", barrier.arrived, " arrivals that nobody waited for"));
  }
  for (const auto& [address, barrier] : block->mbarriers) {
    if (barrier.bytes != 0)
      throw Fault(cat("an mbarrier, byte ", shared_offset(address), " of shared memory, is left with ", barrier.bytes,
                      " bytes announced that never came"));
  }
}

void run_block() {
  const size_t count = block->fibers.size();
  const bool late = block->launch.schedule == Schedule::late;
  for (size_t alive = count; alive > 0;) {
    bool moved = false;
    for (size_t i = 0; i < count; ++i) {
      Fiber& fiber = block->fibers[late ? count - 1 - i : i];
      if (fiber.done || (fiber.ready != nullptr && !fiber.ready(fiber.question))) continue;
      enter(fiber);
      if (block->fault) std::rethrow_exception(block->fault);
      moved = true;
      if (fiber.done) --alive;
    }
    if (moved) continue;
    if (block->copies.empty()) report_deadlock();
    const std::function<void()> copy = std::move(block->copies.back());
    block->copies.pop_back();
    copy();
  }
  check_end();
}

Mbarrier& mbarrier_at(const void* address) {
  const auto found = block->mbarriers.find(address);
  if (found == block->mbarriers.end()) fail("an mbarrier is used that was not initialised");
  return found->second;
}
void settle(Mbarrier& barrier) {
  if (barrier.pending < 0) fail("more arrivals at an mbarrier than it was initialised for");
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.expected;
  ++barrier.phase;
}

}  // namespace

void run(const Launch& launch, const std::function<void()>& kernel) {
  std::vector<std::unique_ptr<char[]>> stacks;
  for (unsigned i = 0; i < launch.threads; ++i) stacks.emplace_back(new char[stack_bytes]);
  gridDim = launch.grid;
  blockDim = dim3(launch.threads);
  const auto run_one = [&](uint3 index) {
    Block here{launch, kernel, std::vector<Fiber>(launch.threads), std::vector<Warp>(launch.threads / 32)};
    for (unsigned i = 0; i < launch.threads; ++i) {
      here.fibers[i].thread = i;
      here.fibers[i].stack = std::move(stacks[i]);
    }
    std::memset(launch.shared.data(), poison, launch.shared.size());
    blockIdx = index;
    block = &here;
    run_block();
    for (unsigned i = 0; i < launch.threads; ++i) stacks[i] = std::move(here.fibers[i].stack);
  };
  for (unsigned z = 0; z < launch.grid.z; ++z)
    for (unsigned y = 0; y < launch.grid.y; ++y)
      for (unsigned x = 0; x < launch.grid.x; ++x) run_one({x, y, z});
}

uint32_t shared_offset(const void* pointer) {
  const std::span<uint8_t> shared = block->launch.shared;
  const auto offset = static_cast<const uint8_t*>(pointer) - shared.data();
  if (offset < 0 || offset >= static_cast<int64_t>(shared.size())) fail("an address that is not in shared memory");
  return static_cast<uint32_t>(offset);
}

uint8_t* shared_pointer(uint32_t offset, uint32_t bytes) {
  const std::span<uint8_t> shared = block->launch.shared;
  if (uint64_t{offset} + bytes > shared.size()) fail(cat("byte ", offset, " lies behind the end of shared memory"));
  return shared.data() + offset;
}

void collective(const char* operation, void* operands, void (*act)(Lanes lanes)) {
  Warp& warp = block->warps[threadIdx.x / 32];
  if (warp.arrived == 0) {
    warp.operation = operation;
  } else if (std::strcmp(warp.operation, operation) != 0) {
    fail(cat("lanes of a warp meet in different operations: ", warp.operation, " and ", operation));
  }
  warp.operands[threadIdx.x % 32] = operands;
  if (++warp.arrived == 32) {
    warp.arrived = 0;
    act(warp.operands);
    ++warp.turn;
    return;
  }
  const uint64_t turn = warp.turn;
  wait_until(operation, [&] { return warp.turn != turn; });
}

bool block_barrier(int id, int threads, bool wait, bool condition) {
  NamedBarrier& barrier = block->named[id];
  const uint64_t turn = barrier.turn;
  barrier.holds = barrier.holds || condition;
  if (++barrier.arrived == threads) {
    barrier.held = std::exchange(barrier.holds, false);
    barrier.arrived = 0;
    ++barrier.turn;
  } else if (wait) {
    wait_until("a barrier of the block", [&] { return barrier.turn != turn; });
  }
  return barrier.held;
}

void mbarrier_init(const void* barrier, int arrivals) {
  if (shared_offset(barrier) % 8 != 0) fail("an mbarrier is not aligned to 8 bytes");
  block->mbarriers[barrier] = {arrivals, arrivals};
}
void mbarrier_arrive(const void* barrier, int64_t bytes) {
  Mbarrier& b = mbarrier_at(barrier);
  b.bytes += bytes;
  --b.pending;
  settle(b);
}
void mbarrier_complete(const void* barrier, int64_t bytes) {
  Mbarrier& b = mbarrier_at(barrier);
  b.bytes -= bytes;
  settle(b);
}
void mbarrier_wait(const void* barrier, uint32_t parity) {
  const Mbarrier& b = mbarrier_at(barrier);
  wait_until("an mbarrier", [&] { return (b.phase & 1) != parity; });
}

void start_copy(std::function<void()> copy) {
  if (block->launch.schedule == Schedule::early) {
    copy();
  } else {
    block->copies.push_back(std::move(copy));
  }
}

void enqueue(Queue queue, std::function<void()> work) {
  if (block->launch.schedule == Schedule::early) {
    work();
  } else {
    block->running->open[static_cast<size_t>(queue)].work.push_back(std::move(work));
  }
}
void commit(Queue queue) {
  const auto q = static_cast<size_t>(queue);
  block->running->committed[q].push_back(std::move(block->running->open[q]));
  block->running->open[q] = {};
}
void wait(Queue queue, int groups_left) {
  std::deque<Group>& groups = block->running->committed[static_cast<size_t>(queue)];
  while (groups.size() > static_cast<size_t>(groups_left)) {
    const Group group = std::move(groups.front());
    groups.pop_front();
    for (const std::function<void()>& work : group.work) work();
  }
}

}  // namespace anymask::emulation
