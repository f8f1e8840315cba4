// Stopping a call through both public headers: long ones end early, on every backend of a CPU, and leave nothing
// behind.
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace anymask;
using Clock = std::chrono::steady_clock;

// Seconds from a request to the end of the call: an instant, and far from the minutes that the call would take. The
// thread sanitizer slows planning on an otherwise busy machine to 3.5 s.
#if defined(__SANITIZE_THREAD__)
constexpr double longest_stop = 20;
#else
constexpr double longest_stop = 1;
#endif

// Rows of one token seen as many: minutes of work in little memory.
struct LongCall {
  explicit LongCall(int64_t rows, int64_t dim = 128)
      : s(rows),
        d(dim),
        row(static_cast<size_t>(dim), 0.01f),
        memory(static_cast<size_t>(rows * dim), NAN),
        second(memory),
        third(memory) {}
  Tensor expanded() const { return Tensor(row.data(), {1, s, 1, d}, {0, 0, d, 1}); }
  Tensor written(std::vector<float>& to) const { return Tensor(to, {1, s, 1, d}); }

  int64_t s, d;
  std::vector<float> row, memory, second, third;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The seconds from the request to the end of `call`, which must end by Status::interrupted; minutes left alone.
template <class Call>
double stopping_takes(const char* backend, Call&& call) {
  const auto begin = Clock::now();
  Clock::time_point requested;
  const std::thread::id caller = std::this_thread::get_id();
  const Context context = {.backend = backend, .num_threads = 2, .interrupted = [&] {
                             EXPECT_EQ(std::this_thread::get_id(), caller);
                             if (seconds_since(begin) < 0.2) return false;
                             requested = Clock::now();
                             return true;
                           }};
  try {
    call(context);
    ADD_FAILURE() << "it was to be longer than this";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::interrupted) << error.what();
    EXPECT_NE(std::string(error.what()).find("interrupted"), std::string::npos);
  }
  return seconds_since(requested);
}

TEST(Interrupt, StopsAForward) {
  for (const char* backend : {"cpu", "reference", "naive"}) {
    LongCall c(1 << 15);
    const double seconds = stopping_takes(backend, [&](const Context& context) {
      attention_forward(c.expanded(), c.expanded(), c.expanded(), c.written(c.memory), Tensor{}, {}, context);
    });
    EXPECT_LT(seconds, longest_stop) << backend;
  }
}

TEST(Interrupt, StopsABackward) {
  for (const char* backend : {"cpu", "reference", "naive"}) {
    LongCall c(1 << 15);
    const std::vector<float> lse(static_cast<size_t>(c.s), 10.4f);
    const double seconds = stopping_takes(backend, [&](const Context& context) {
      attention_backward(c.expanded(), c.expanded(), c.expanded(), c.expanded(), c.expanded(), Tensor(lse, {1, 1, c.s}),
                         c.written(c.memory), c.written(c.second), c.written(c.third), {}, context);
    });
    EXPECT_LT(seconds, longest_stop) << backend;
  }
}

// A mask of bits is planned before anything is computed: that can be stopped, too.
TEST(Interrupt, StopsPlanning) {
  set_plan_cache_limit(0);
  LongCall c(1 << 20, 8);
  const Mask mask = ~(stride(3) & stride(5));
  const double seconds = stopping_takes("cpu", [&](const Context& context) {
    attention_forward(c.expanded(), c.expanded(), c.expanded(), c.written(c.memory), Tensor{}, {.mask = mask}, context);
  });
  set_plan_cache_limit(int64_t{256} << 20);
  EXPECT_LT(seconds, longest_stop);
}

// What the function computes meanwhile is right, and so is the call that it lets go on.
TEST(Interrupt, TheFunctionMayCompute) {
  LongCall c(6000), small(100);
  std::vector<float> want(static_cast<size_t>(small.s * c.d), NAN);
  attention_forward(small.expanded(), small.expanded(), small.expanded(), small.written(want), Tensor{},
                    {.mask = causal()});
  int asked = 0;
  const Context context = {.num_threads = 2, .interrupted = [&] {
                             ++asked;
                             attention_forward(small.expanded(), small.expanded(), small.expanded(),
                                               small.written(small.memory), Tensor{}, {.mask = causal()});
                             return false;
                           }};
  for (int i = 0; i < 100 && asked == 0; ++i) {
    std::fill(c.memory.begin(), c.memory.end(), NAN);
    attention_forward(c.expanded(), c.expanded(), c.expanded(), c.written(c.memory), Tensor{}, {}, context);
  }
  ASSERT_GT(asked, 0);
  EXPECT_EQ(small.memory, want);
  for (const float x : c.memory) ASSERT_NEAR(x, 0.01f, 1e-6f);
}

// A program built before the field was there passes a smaller struct: the bytes behind it are not read.
TEST(Interrupt, OlderCallersAskNobody) {
  LongCall c(8);
  const DLTensor* none = nullptr;
  anymask_options options = {};
  options.struct_size = offsetof(anymask_options, interrupted);
  options.interrupted = [](void*) -> int32_t { return 1; };
  const Tensor row = c.expanded(), written = c.written(c.memory);
  const detail::View q(row), out(written);
  EXPECT_EQ(anymask_forward(q.get(), q.get(), q.get(), out.get(), none, &options), ANYMASK_OK) << anymask_last_error();
  EXPECT_NEAR(c.memory[0], 0.01f, 1e-6f);
}

}  // namespace
