// A GPU's thread blocks on one CPU thread, so that kernels run from their own source on any machine.
//
// Every thread of a block is a fiber with a stack of its own. Fibers are switched only where a kernel waits: at a
// barrier, at an operation of a whole warp, for asynchronous work. Shared memory is poisoned before each block. A
// kernel that hangs is reported, with what everybody waits for: nobody can go on and nothing is in flight.
//
// Asynchronous work may happen at any moment between its start and the wait for it. Two schedules show the ends of that
// span: `early` does it where it is issued and finds memory that was still in use; `late` does it when it is waited
// for, copies when nobody else can move, newest first, and finds waits that are missing. They also run the threads of a
// block in opposite orders.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>

namespace anymask::emulation {

// What no GPU allows, or what would hang one.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Schedule { early, late };

struct Launch {
  dim3 grid;
  unsigned threads = 0;         // a multiple of 32
  std::span<uint8_t> shared{};  // the kernel's shared memory
  Schedule schedule = Schedule::early;
};

// Runs the blocks one after another; each thread of each calls `kernel`. Throws Fault.
void run(const Launch& launch, const std::function<void()>& kernel);

// ---- For the stand-ins of CUDA's own functions: called by the running thread of a block.

// Where an address is in shared memory, and back. A fault outside of it.
uint32_t shared_offset(const void* pointer);
uint8_t* shared_pointer(uint32_t offset, uint32_t bytes);

// Waits until all 32 lanes have come, with the same `operation`; the last one to come does it, for all of them.
using Lanes = void* const (&)[32];
void collective(const char* operation, void* operands, void (*act)(Lanes lanes));

// bar.sync and bar.arrive; to those who wait: whether the condition held for any who came.
bool block_barrier(int id, int threads, bool wait, bool condition = false);

// An mbarrier is known by its address. Its phase completes when all arrivals and all bytes that were announced have
// come.
void mbarrier_init(const void* barrier, int arrivals);
void mbarrier_arrive(const void* barrier, int64_t bytes);
void mbarrier_complete(const void* barrier, int64_t bytes);
void mbarrier_wait(const void* barrier, uint32_t parity);

// A copy by the block's copy engine: it ends with mbarrier_complete.
void start_copy(std::function<void()> copy);

// Asynchronous work that a thread waits for in groups: wgmma, cp.async.
enum class Queue { products, copies };
void enqueue(Queue queue, std::function<void()> work);
void commit(Queue queue);
void wait(Queue queue, int groups_left);

}  // namespace anymask::emulation
