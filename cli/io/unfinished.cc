#include "cli/io/unfinished.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

namespace anymask::cli {

namespace {

// Fixed memory: a signal handler may neither allocate nor lock.
struct Place {
  std::atomic<bool> used{false};
  std::array<char, 4096> path;
};
std::array<Place, 64> places;

// What was made last goes first: files before their directories. The handler is gone once it runs, so that the signal
// raised again ends the process.
void remove_all_and_end(int signal) {
  for (size_t i = places.size(); i-- > 0;) {
    if (!places[i].used.load(std::memory_order_acquire)) continue;
    if (::unlink(places[i].path.data()) != 0) ::rmdir(places[i].path.data());
  }
  ::raise(signal);
}

void install() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;  // nohup's stays ignored
    now.sa_handler = remove_all_and_end;
    now.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &now, nullptr);
  }
}

}  // namespace

int unfinished(const std::string& path) {
  static std::once_flag installed;
  static std::mutex mutex;
  std::call_once(installed, install);
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].used.load(std::memory_order_relaxed) || path.size() >= places[i].path.size()) continue;
    std::memcpy(places[i].path.data(), path.c_str(), path.size() + 1);
    places[i].used.store(true, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void finished(int place) {
  if (place >= 0) places[static_cast<size_t>(place)].used.store(false, std::memory_order_release);
}

}  // namespace anymask::cli
