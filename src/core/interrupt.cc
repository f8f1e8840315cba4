#include "core/interrupt.h"

#include "core/error.h"

namespace anymask {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto asking_every = std::chrono::milliseconds(50);

thread_local InterruptScope* current = nullptr;

}  // namespace

InterruptScope::InterruptScope(InterruptFunction function, void* context) : function_(function), context_(context) {
  current = this;
}

InterruptScope::~InterruptScope() { current = nullptr; }

bool asking_interrupt() { return current != nullptr && current->asking_; }

void poll_interrupt() {
  InterruptScope* scope = current;
  if (scope == nullptr || scope->function_ == nullptr) return;
  const auto now = Clock::now();
  if (now < scope->next_) return;
  const bool first = scope->next_ == Clock::time_point{};
  scope->next_ = now + asking_every;
  if (first) return;  // a call that ends within 50 ms asks nobody
  scope->asking_ = true;
  const bool stop = scope->function_(scope->context_) != 0;
  scope->asking_ = false;
  scope->next_ = Clock::now() + asking_every;
  if (stop)
    throw Error(Status::interrupted,
                "attention: interrupted, as the caller asked; what it was to write is unspecified: call again");
}

}  // namespace anymask
