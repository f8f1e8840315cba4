// Stopping a call: who is asked, when, and what calls made meanwhile do.
#include "core/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/error.h"

namespace anymask {
namespace {

struct Asked {
  int times = 0, answer = 0;
  std::thread::id by;
  static int32_t function(void* context) {
    auto* asked = static_cast<Asked*>(context);
    ++asked->times;
    asked->by = std::this_thread::get_id();
    return asked->answer;
  }
};

void poll_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  do poll_interrupt();
  while (std::chrono::steady_clock::now() < end);
}

TEST(Interrupt, NobodyIsAskedOutsideACallNorWithoutAFunction) {
  poll_for(std::chrono::milliseconds(120));
  interruptible(nullptr, nullptr, [] { poll_for(std::chrono::milliseconds(120)); });
  EXPECT_FALSE(asking_interrupt());
}

TEST(Interrupt, AShortCallAsksNobodyAndALongOneNowAndThen) {
  Asked asked;
  interruptible(Asked::function, &asked, [] { poll_for(std::chrono::milliseconds(5)); });
  EXPECT_EQ(asked.times, 0);
  interruptible(Asked::function, &asked, [] { poll_for(std::chrono::milliseconds(400)); });
  EXPECT_GE(asked.times, 1);
  EXPECT_LE(asked.times, 8);
  EXPECT_EQ(asked.by, std::this_thread::get_id());
}

TEST(Interrupt, TheAnswerStopsTheThreadOfTheCallAlone) {
  Asked asked;
  asked.answer = 1;
  try {
    interruptible(Asked::function, &asked, [] {
      std::thread([] { poll_for(std::chrono::milliseconds(120)); }).join();
      poll_for(std::chrono::seconds(60));
    });
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::interrupted);
  }
  EXPECT_EQ(asked.times, 1);
  poll_for(std::chrono::milliseconds(120));  // the call is over
  EXPECT_EQ(asked.times, 1);
}

TEST(Interrupt, ACallMadeByTheFunctionRunsApartAndAsksNobody) {
  struct Nested {
    int times = 0;
    std::thread::id by;
    bool thrown = false;
  } nested;
  const auto ask = [](void* context) -> int32_t {
    auto* n = static_cast<Nested*>(context);
    EXPECT_TRUE(asking_interrupt());
    try {
      interruptible(
          [](void*) -> int32_t {
            ADD_FAILURE() << "asked from another thread";
            return 1;
          },
          nullptr,
          [n] {
            ++n->times;
            n->by = std::this_thread::get_id();
            poll_for(std::chrono::milliseconds(120));
            throw std::runtime_error("its own");
          });
    } catch (const std::runtime_error&) {
      n->thrown = true;
    }
    return 1;
  };
  EXPECT_THROW(interruptible(ask, &nested, [] { poll_for(std::chrono::seconds(60)); }), Error);
  EXPECT_EQ(nested.times, 1);
  EXPECT_NE(nested.by, std::this_thread::get_id());
  EXPECT_TRUE(nested.thrown);
}

}  // namespace
}  // namespace anymask
