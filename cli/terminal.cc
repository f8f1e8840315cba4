#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace anymask::cli {

namespace {

bool capable_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) && !(term && std::string(term) == "dumb");
}

}  // namespace

bool color_on_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  return capable_terminal(STDOUT_FILENO) && !(no_color && *no_color);
}

std::string paint(const std::string& text, const char* code, bool color) {
  return color ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

int terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

Progress::Progress(std::string what, int64_t total) : what_(std::move(what)), total_(std::max<int64_t>(total, 1)) {
  if (!capable_terminal(STDERR_FILENO)) return;
  thread_ = std::thread([this] {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return finished_; });
    while (!finished_) {
      draw(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return finished_; });
    }
  });
}

void Progress::update(int64_t done, const std::string& note) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  note_ = note;
}

void Progress::draw(double elapsed) {
  constexpr int64_t width = 24;
  const auto filled = static_cast<size_t>(width * std::clamp<int64_t>(done_, 0, total_) / total_);
  const std::string time =
      done_ > 0 && done_ < total_
          ? fmt::format("{:.0f} s left", elapsed * static_cast<double>(total_ - done_) / static_cast<double>(done_))
          : fmt::format("{:.0f} s", elapsed);
  const std::string line = fmt::format("\r\033[K{} [{}{}] {}/{}, {} {}", what_, std::string(filled, '#'),
                                       std::string(width - filled, '.'), done_, total_, time, note_);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

std::string human_bytes(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_count(int64_t count) {
  std::string text = std::to_string(count);
  for (auto i = static_cast<int64_t>(text.size()) - 3; i > (count < 0 ? 1 : 0); i -= 3)
    text.insert(static_cast<size_t>(i), ",");
  return text;
}

std::string human_ms(double milliseconds) {
  if (milliseconds >= 10000) return fmt::format("{:.1f} s", milliseconds / 1000);
  if (milliseconds >= 1000) return fmt::format("{:.2f} s", milliseconds / 1000);
  if (milliseconds >= 100) return fmt::format("{:.0f} ms", milliseconds);
  if (milliseconds >= 1) return fmt::format("{:.2f} ms", milliseconds);
  return fmt::format("{:.4f} ms", milliseconds);
}

std::string percent(double share) {
  const double value = 100 * share;
  if (value > 0 && value < 0.001) return "<0.001%";
  if (value > 99.95 && value < 100) return value < 99.995 ? fmt::format("{:.2f}%", value) : ">99.99%";
  if (value >= 10 || value == 0) return fmt::format("{:.1f}%", value);
  return fmt::format("{:.3g}%", value);
}

}  // namespace anymask::cli
