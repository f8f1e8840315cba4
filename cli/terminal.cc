#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
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

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)),
      total_(std::max<int64_t>(total, 1)),
      terminal_(capable_terminal(STDERR_FILENO)),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

void Progress::update(int64_t done, const std::string& note) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < std::chrono::seconds(1) || (drawn_ && now - last_ < std::chrono::milliseconds(100))) return;
  last_ = now;
  drawn_ = true;
  constexpr int width = 24;
  const int filled = static_cast<int>(width * std::clamp<int64_t>(done, 0, total_) / total_);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (done > 0 && done < total_)
    left = fmt::format(", {:.0f} s left", elapsed * static_cast<double>(total_ - done) / static_cast<double>(done));
  std::fprintf(stderr, "\r\033[K%s [%s%s] %lld/%lld%s %s", what_.c_str(),
               std::string(static_cast<size_t>(filled), '#').c_str(),
               std::string(static_cast<size_t>(width - filled), '.').c_str(), static_cast<long long>(done),
               static_cast<long long>(total_), left.c_str(), note.c_str());
  std::fflush(stderr);
}

Progress::~Progress() {
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
  if (milliseconds >= 100) return fmt::format("{:.0f} ms", milliseconds);
  if (milliseconds >= 1) return fmt::format("{:.2f} ms", milliseconds);
  return fmt::format("{:.4f} ms", milliseconds);
}

std::string percent(double share) {
  const double value = 100 * share;
  if (value >= 10 || value == 0) return fmt::format("{:.1f}%", value);
  return fmt::format("{:.3g}%", value);
}

}  // namespace anymask::cli
