// Assertions for our own bugs: on in release, print the place, stop. Never used on input.
#pragma once

namespace sluice {

// Called with the failed expression and its place, on the thread that failed. Several threads may
// be in it at once. The strings live as long as the program. The default prints to stderr; a host
// program (a Python interpreter, a daemon) may install its own. When the handler returns, the
// process aborts.
using AssertionHandler = void (*)(const char* expression, const char* file, int line);

// Installs a handler for the whole process and returns the one before; null restores the default.
// Any thread, never fails.
AssertionHandler set_assertion_handler(AssertionHandler handler);

// What a failed assertion calls: the handler, then abort(). Any thread.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace sluice

// An expression of type void. Evaluates the condition exactly once.
#define SLUICE_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) \
                                : ::sluice::assertion_failed(#condition, __FILE__, __LINE__))

// For hot loops: checked in debug and sanitizer builds only. Elsewhere the condition is compiled
// but not evaluated, so it must have no side effects.
#ifdef NDEBUG
#define SLUICE_DASSERT(condition) static_cast<void>(false && static_cast<bool>(condition))
#else
#define SLUICE_DASSERT(condition) SLUICE_ASSERT(condition)
#endif
