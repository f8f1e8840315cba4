// The one exception inside the library. The C boundary turns it into a status and a message.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace anymask {

enum class Status { ok = 0, invalid_argument = 1, unsupported = 2, out_of_memory = 3, internal = 4, interrupted = 5 };

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

// cat("k has ", 3, " heads") -> "k has 3 heads"
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream stream;
  stream.precision(17);
  (stream << ... << parts);
  return std::move(stream).str();
}

// A message names the operation, the argument, what was expected, what came, and the way out:
//   fail_invalid("attention: k has shape ", k, "; h_kv must divide h_q = 8: use 1, 2, 4 or 8");
template <class... Parts>
[[noreturn]] void fail_invalid(const Parts&... parts) {
  throw Error(Status::invalid_argument, cat(parts...));
}
template <class... Parts>
[[noreturn]] void fail_unsupported(const Parts&... parts) {
  throw Error(Status::unsupported, cat(parts...));
}

}  // namespace anymask
