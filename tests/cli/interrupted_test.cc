// A command that is interrupted leaves nothing behind, and ends by the signal.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/io/file.h"

namespace anymask::cli {
namespace {

class Interrupted : public testing::TestWithParam<int> {};

TEST_P(Interrupted, LeavesNothingBehind) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("interrupted" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    OutputFiles done, files;
    done.open(folder / "done.npy");
    done.commit();
    files.make_directory(folder / "a" / "b");
    files.open(folder / "a" / "b" / "out.npy");
    files.open(folder / "lse.npy");
    ::raise(GetParam());
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == GetParam()) << status;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    left.push_back(entry.path().filename());
  EXPECT_EQ(left, std::vector<std::string>{"done.npy"});
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupted, testing::Values(SIGINT, SIGTERM, SIGHUP));

}  // namespace
}  // namespace anymask::cli
