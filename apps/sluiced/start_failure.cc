#include "start_failure.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <system_error>

namespace sluice::daemon {

std::string words_for(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return "out of memory";
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  const bool is_thread =
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
  return is_thread ? fmt::format("out of memory: {}", error.what()) : error.what();
}

}  // namespace sluice::daemon
