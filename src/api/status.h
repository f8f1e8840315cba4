// The edge of the library: exceptions become a status and this thread's last message. Nothing is thrown across it.
#pragma once

#include <utility>

#include "anymask/anymask.h"

namespace anymask {

// Turns the exception being handled into a status, and remembers its message.
anymask_status record_exception() noexcept;

template <class Body>
anymask_status guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return ANYMASK_OK;
  } catch (...) {
    return record_exception();
  }
}

}  // namespace anymask
