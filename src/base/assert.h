// Assertions for our own bugs: on in release, print the place, stop. Never used on input.
#pragma once

namespace sluice {

// Called with the failed expression and its place; must not return. The default prints to stderr
// and aborts; a host program (a Python interpreter, a daemon) may install its own.
using AssertionHandler = void (*)(const char* expression, const char* file, int line);

// Installs a handler and returns the one before. Any thread.
AssertionHandler set_assertion_handler(AssertionHandler handler);

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace sluice

#define SLUICE_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) \
                                : ::sluice::assertion_failed(#condition, __FILE__, __LINE__))

// For hot loops: checked in debug and sanitizer builds only.
#ifdef NDEBUG
#define SLUICE_DASSERT(condition) static_cast<void>(false && static_cast<bool>(condition))
#else
#define SLUICE_DASSERT(condition) SLUICE_ASSERT(condition)
#endif
