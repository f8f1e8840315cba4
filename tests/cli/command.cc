#include "cli/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace anymask::cli {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false, within = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!within) words.emplace_back();
      within = true;
    } else if (c == ' ' && !quoted) {
      within = false;
    } else {
      if (!within) words.emplace_back();
      within = true;
      words.back() += c;
    }
  }
  return words;
}

Said run_anymask(const std::vector<std::string>& arguments, const std::string& directory) {
  int out[2], err[2];
  if (::pipe(out) != 0 || ::pipe(err) != 0) std::abort();
  std::vector<std::string> words{ANYMASK_COMMAND};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
    if (::chdir(directory.c_str()) != 0) ::_exit(126);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Said said;
  pollfd fds[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  for (int open = 2; open > 0;) {
    ::poll(fds, 2, -1);
    for (pollfd& fd : fds) {
      if (fd.fd < 0 || fd.revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(fd.fd, buffer, sizeof buffer);
      if (n > 0) {
        (fd.fd == out[0] ? said.out : said.err).append(buffer, static_cast<size_t>(n));
      } else {
        ::close(fd.fd);
        fd.fd = -1;
        --open;
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  said.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return said;
}

Said run_anymask(const std::string& line, const std::string& directory) { return run_anymask(split(line), directory); }

}  // namespace anymask::cli
