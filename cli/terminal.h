// What goes to people: colours and progress where there is a terminal, numbers in readable units.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace anymask::cli {

// Colour on standard output: it is a terminal, TERM is not "dumb" and NO_COLOR is not set.
bool color_on_stdout();
// `text` in an ANSI colour ("1" bold, "32" green, "31" red, "2" dim) when colour is on, else unchanged.
std::string paint(const std::string& text, const char* code, bool color);

int terminal_columns();  // of standard output; 80 when unknown

// A bar on stderr, shown only on a terminal and only once a second has passed. A thread of its own redraws it, so that
// it lives through long calls too.
class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(int64_t done, const std::string& note = "");

 private:
  void draw(double elapsed);

  const std::string what_;
  const int64_t total_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  int64_t done_ = 0;
  std::string note_;
  bool finished_ = false, drawn_ = false;
  std::thread thread_;  // none without a terminal
};

std::string human_bytes(int64_t bytes);     // 12.3 MiB
std::string human_count(int64_t count);     // 1,234,567
std::string human_ms(double milliseconds);  // 0.0123 ms, 1.23 ms, 12.3 s
std::string percent(double share);          // 12.3%; 0.0% and 100.0% are said of nothing and of all

}  // namespace anymask::cli
