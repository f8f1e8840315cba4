#include "api/status.h"

#include <new>
#include <stdexcept>
#include <string>

#include "core/error.h"

namespace anymask {
namespace {

thread_local std::string last_error;

void remember(const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();  // no memory for the message: the status alone speaks
  }
}

}  // namespace

anymask_status record_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    remember(error.what());
    return static_cast<anymask_status>(error.status());
  } catch (const std::bad_alloc&) {
    remember("out of memory: give this process more, or make the call smaller");
    return ANYMASK_OUT_OF_MEMORY;
  } catch (const std::length_error&) {  // a container asked for more than could ever be had
    remember("out of memory: the call needs more than the address space holds");
    return ANYMASK_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember((std::string("a defect of anymask: ") + error.what()).c_str());
    return ANYMASK_INTERNAL;
  } catch (...) {
    remember("a defect of anymask: an unknown exception");
    return ANYMASK_INTERNAL;
  }
}

}  // namespace anymask

const char* anymask_last_error(void) { return anymask::last_error.c_str(); }
