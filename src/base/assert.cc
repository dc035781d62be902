#include "base/assert.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

namespace sluice {
namespace {

void print_and_abort(const char* expression, const char* file, int line) {
  const std::string text = std::string("sluice: assertion failed: ") + expression + " at " + file +
                           ":" + std::to_string(line) + "\n";
  // write(2) rather than a stream: the process is about to stop and buffers may be broken.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::atomic<AssertionHandler> g_handler{&print_and_abort};

}  // namespace

AssertionHandler set_assertion_handler(AssertionHandler handler) {
  return g_handler.exchange(handler == nullptr ? &print_and_abort : handler);
}

void assertion_failed(const char* expression, const char* file, int line) {
  g_handler.load()(expression, file, line);
  std::abort();
}

}  // namespace sluice
