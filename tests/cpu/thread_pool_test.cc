// The pool: everything is done once, exceptions come back, calls may nest in time and across threads, a fork has its
// own.
#include "cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace anymask {
namespace {

// Claims `pieces` pieces and counts them.
int64_t count_pieces(int threads, int pieces) {
  std::atomic<int> next{0};
  std::atomic<int64_t> done{0};
  run_on_threads(threads, [&](int) {
    while (next.fetch_add(1) < pieces) done.fetch_add(1);
  });
  return done;
}

TEST(ThreadPool, DoesEveryPieceOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    for (int i = 0; i < 300; ++i) ASSERT_EQ(count_pieces(threads, i), i);
  }
}

TEST(ThreadPool, ParticipantsAreNumberedOnce) {
  for (int i = 0; i < 100; ++i) {
    std::vector<std::atomic<int>> seen(4);
    run_on_threads(4, [&](int participant) { seen[static_cast<size_t>(participant)].fetch_add(1); });
    EXPECT_EQ(seen[0], 1);
    for (const auto& s : seen) EXPECT_LE(s, 1);
  }
}

// What masks and plans are handed: pieces once each, exceptions end them, and nobody to help is no error.
TEST(ThreadPool, WorkersShareOutPieces) {
  EXPECT_EQ(pool_workers(3).threads, 3);
  EXPECT_EQ(pool_workers(0).threads, available_threads());
  for (const Workers& workers : {Workers{}, pool_workers(1), pool_workers(2), pool_workers(5)}) {
    for (const int pieces : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(pieces));
      workers.each(pieces, [&](int64_t piece, int participant) {
        EXPECT_LT(participant, workers.threads);
        done[static_cast<size_t>(piece)].fetch_add(1);
      });
      for (const auto& d : done) EXPECT_EQ(d, 1);
    }
    std::atomic<int> begun{0};
    EXPECT_THROW(workers.each(1 << 30,
                              [&](int64_t, int) {
                                if (begun.fetch_add(1) >= 7) throw std::runtime_error("stop");
                              }),
                 std::runtime_error);
    EXPECT_LE(begun, 8 + workers.threads);
  }
}

TEST(ThreadPool, ParkedWorkersComeBack) {
  EXPECT_EQ(count_pieces(3, 10), 10);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::atomic<bool> helped{false};
  for (int i = 0; i < 50 && !helped; ++i) {
    run_on_threads(2, [&](int participant) {
      if (participant != 0) helped = true;
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (!helped && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    });
  }
  EXPECT_TRUE(helped);
}

TEST(ThreadPool, RethrowsWhatAnyParticipantThrew) {
  EXPECT_THROW(run_on_threads(3,
                              [](int participant) {
                                if (participant == 0) throw std::runtime_error("mine");
                              }),
               std::runtime_error);
  EXPECT_EQ(count_pieces(3, 100), 100);
}

TEST(ThreadPool, SeveralUsersAtOnce) {
  std::vector<std::thread> users;
  std::atomic<int> right{0};
  for (int u = 0; u < 6; ++u) {
    users.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        if (count_pieces(3, 50) == 50) right.fetch_add(1);
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(right, 600);
}

TEST(ThreadPool, AForkHasItsOwnWorkers) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer knows no child of a process of many threads that starts threads of its own";
#endif
  EXPECT_EQ(count_pieces(2, 10), 10);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(count_pieces(2, 1000) == 1000 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ThreadPool, CountsCores) {
  EXPECT_GE(available_threads(), 1);
  EXPECT_EQ(resolve_threads(3), 3);
  EXPECT_EQ(resolve_threads(0), available_threads());
}

}  // namespace
}  // namespace anymask
