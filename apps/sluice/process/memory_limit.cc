#include "apps/sluice/process/memory_limit.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "apps/sluice/process/terminal.h"

namespace sluice::cli {
namespace {

constexpr const char* kNoThread = "out of memory: a thread could not be started";

// Of the handler below, which takes no argument.
std::atomic<int>& exit_status() {
  static std::atomic<int> status{EXIT_FAILURE};
  return status;
}

// What the exception in hand says of memory; null: something else.
const char* words_for_current() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  } catch (const std::length_error&) {
    return kOutOfMemory;
  } catch (const std::system_error& error) {
    const bool is_thread = error.code() == std::errc::resource_unavailable_try_again;
    return is_thread ? kNoThread : nullptr;
  } catch (...) {
    return nullptr;
  }
}

[[noreturn]] void handle_termination() {
  const char* words = nullptr;
  if (std::current_exception() != nullptr) {
    words = words_for_current();
  } else if (std::uncaught_exceptions() > 0) {
    words = kNoThread;  // on its way past threads that were started before
  }
  if (words == nullptr) std::abort();
  complain(words);
  std::_Exit(exit_status());
}

}  // namespace

Verdict with_memory(const std::string& wanted, const std::function<Verdict()>& work) {
  try {
    return work();
  } catch (const std::exception&) {
    const char* const words = words_for_current();
    if (words == nullptr) std::rethrow_exception(std::current_exception());
    return Problem{Code::out_of_memory,
                   wanted.empty() ? std::string(words) : fmt::format("{}: {}", words, wanted)};
  }
}

void end_threads_without_memory(int status) {
  exit_status() = status;
  std::set_terminate(&handle_termination);
}

}  // namespace sluice::cli
